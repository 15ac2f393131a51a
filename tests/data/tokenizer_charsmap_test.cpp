// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_charsmap.h"

#include <gtest/gtest.h>

#include "data/tokenizer_charsmap_file.h"

namespace ballast {
namespace {

std::string apply(const Charsmap& map, std::string text) {
  map.apply(text);
  return text;
}

// NFKC by the Unicode standard, and what SentencePiece adds for machine translation: white space becomes a space,
// controls vanish.
TEST(Charsmap, PutsTextIntoTheFormOfNmtNfkc) {
  const std::optional<Charsmap> map = Charsmap::read(nmt_nfkc_map());
  ASSERT_TRUE(map);
  EXPECT_EQ(apply(*map, "plain text"), "plain text");
  EXPECT_EQ(apply(*map, "\xEF\xAC\x81x\xEF\xBC\xA1\xE2\x91\xA0"), "fixA1");  // ligature fi, wide A, circled 1
  EXPECT_EQ(apply(*map,
                  "a\tb\nc\xE3\x80\x80"
                  "d"),
            "a b c d");
  EXPECT_EQ(apply(*map,
                  "a\x01\x7F"
                  "b"),
            "ab");
  EXPECT_EQ(apply(*map, "e\xCC\x81"), "\xC3\xA9");  // e and an accent, one grapheme
  EXPECT_EQ(apply(*map, ""), "");
}

TEST(Charsmap, RefusesDamage) {
  const std::string blob = nmt_nfkc_map();
  EXPECT_FALSE(Charsmap::read(""));
  EXPECT_FALSE(Charsmap::read("abc"));
  for (const size_t size : {size_t{4}, size_t{100}, blob.size() / 2, blob.size() - 1}) {
    EXPECT_FALSE(Charsmap::read(std::string_view(blob).substr(0, size))) << size;
  }
  std::string damaged = blob;
  damaged[5] = '\x7F';  // the root's place of children
  damaged[6] = '\x7F';
  damaged[7] = '\x7F';
  EXPECT_FALSE(Charsmap::read(damaged));
  damaged = blob;
  damaged[blob.size() - 3] = '\xFF';  // a text that is not UTF-8
  EXPECT_FALSE(Charsmap::read(damaged));
}

}  // namespace
}  // namespace ballast
