// SPDX-License-Identifier: Apache-2.0
#include "data/byte_trie.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace ballast {
namespace {

using Found = std::vector<std::pair<size_t, int32_t>>;

Found prefixes(const ByteTrie& trie, std::string_view text) {
  Found found;
  trie.visit_prefixes(text, [&](size_t bytes, int32_t value) { found.emplace_back(bytes, value); });
  return found;
}

TEST(ByteTrie, FindsEveryKeyATextBeginsWith) {
  const ByteTrie trie({{"a", 1}, {"abc", 2}, {"ab", 3}, {"b", 4}, {"", 5}, {std::string_view("a\0", 2), 6}, {"ab", 7}});
  EXPECT_EQ(prefixes(trie, "abcd"), (Found{{1, 1}, {2, 7}, {3, 2}}));  // of equal keys the last stays
  EXPECT_EQ(prefixes(trie, std::string_view("a\0b", 3)), (Found{{1, 1}, {2, 6}}));
  EXPECT_EQ(prefixes(trie, "cab"), (Found{}));
  EXPECT_EQ(trie.find("abc"), 2);
  EXPECT_EQ(trie.find("abcd"), -1);
  EXPECT_EQ(trie.find(""), -1);
}

TEST(ByteTrie, MayBeEmpty) {
  const ByteTrie trie({});
  EXPECT_EQ(prefixes(trie, "abc"), (Found{}));
  EXPECT_EQ(trie.find("a"), -1);
}

TEST(ByteTrie, EqualsAMapOnRandomKeys) {
  std::mt19937 random(7);
  std::map<std::string, int32_t> map;
  while (map.size() < 5000) {
    std::string key;
    for (size_t length = 1 + random() % 6; key.size() < length;) key += static_cast<char>(random() % 256);
    map.emplace(key, static_cast<int32_t>(map.size()));
  }
  std::vector<std::pair<std::string_view, int32_t>> entries(map.begin(), map.end());
  const ByteTrie trie(entries);
  for (const auto& [key, value] : map) {
    ASSERT_EQ(trie.find(key), value);
    Found expected;
    for (size_t bytes = 1; bytes <= key.size(); ++bytes) {
      const auto entry = map.find(key.substr(0, bytes));
      if (entry != map.end()) expected.emplace_back(bytes, entry->second);
    }
    ASSERT_EQ(prefixes(trie, key), expected);
  }
}

}  // namespace
}  // namespace ballast
