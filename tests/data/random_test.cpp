// SPDX-License-Identifier: Apache-2.0
#include "data/random.h"

#include <gtest/gtest.h>

#include <numeric>

namespace ballast {
namespace {

// Expected values: a Python version of the description in the header; its mix gives SplitMix64's public sequence of
// seed 0 (e220a8397b1dcdaf, 6e789e6aa1b965f4, ...).
TEST(DataRandom, GivesTheDocumentedNumbers) {
  DataRandom random(DataStream::kSyntheticTokens, {0});
  EXPECT_EQ(random.next(), 0x04aa0f0bae78bbb2u);
  EXPECT_EQ(random.next(), 0x1b9d2e9b4b111edau);
  EXPECT_EQ(random.next(), 0xb6f34b73e16dfed8u);
}

TEST(DataRandom, GivesTheDocumentedPermutations) {
  const auto permutation = [](uint64_t seed) {
    std::vector<int> values(10);
    std::iota(values.begin(), values.end(), 0);
    DataRandom(DataStream::kShuffleBuffer, {seed, 0}).shuffle(values);
    return values;
  };
  EXPECT_EQ(permutation(7), (std::vector<int>{1, 8, 3, 5, 9, 0, 7, 4, 2, 6}));
  EXPECT_EQ(permutation(8), (std::vector<int>{5, 8, 7, 2, 6, 1, 4, 3, 0, 9}));
}

TEST(DataRandom, DrawsEveryValueBelowTheBoundEquallyOften) {
  DataRandom random(DataStream::kFileOrder, {3});
  std::vector<int> counts(5, 0);
  for (int i = 0; i < 50000; ++i) ++counts[random.below(5)];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 400);  // 4.5 standard deviations
}

}  // namespace
}  // namespace ballast
