// SPDX-License-Identifier: Apache-2.0
#include "data/further_tokens.h"

#include <gtest/gtest.h>

namespace ballast {
namespace {

using Values = std::vector<int32_t>;

HostBatch row_of(const Values& inputs, const Values& segments, const Values& targets, const Values& target_segments) {
  HostBatch batch;
  batch.resize(1, static_cast<int64_t>(inputs.size()));
  batch.inputs = inputs;
  batch.inputs_segmentation = segments;
  batch.targets = targets;
  batch.targets_segmentation = target_segments;
  return batch;
}

TEST(FurtherTokens, StayInTheirDocument) {
  const HostBatch batch = row_of({5, 6, 7, 8, 9, 0}, {1, 1, 1, 2, 2, 0}, {6, 7, 0, 9, 0, 0}, {1, 1, 0, 2, 0, 0});
  const FurtherTokens one = further_tokens(batch, 1);
  EXPECT_EQ(one.inputs, (Values{6, 7, 0, 9, 0, 0}));
  EXPECT_EQ(one.exists, (Values{1, 1, 0, 1, 0, 0}));
  EXPECT_EQ(one.targets, (Values{7, 0, 0, 0, 0, 0}));
  EXPECT_EQ(one.counts, (Values{1, 0, 0, 0, 0, 0}));
  const FurtherTokens two = further_tokens(batch, 2);
  EXPECT_EQ(two.inputs, (Values{7, 0, 0, 0, 0, 0}));
  EXPECT_EQ(two.exists, (Values{1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(two.counts, Values(6, 0));
}

// A packed row whose end-of-text token 2 is a target: documents of four and three tokens.
TEST(FurtherTokens, TargetsMoveWithTheirMask) {
  const HostBatch batch = row_of({1, 11, 12, 2, 1, 21, 2, 0}, {1, 1, 1, 1, 2, 2, 2, 0}, {11, 12, 2, 1, 21, 2, 0, 0},
                                 {1, 1, 1, 0, 2, 2, 0, 0});
  const FurtherTokens one = further_tokens(batch, 1);
  EXPECT_EQ(one.targets, (Values{12, 2, 0, 0, 2, 0, 0, 0}));
  EXPECT_EQ(one.counts, (Values{1, 1, 0, 0, 1, 0, 0, 0})) << "a mask is 0 or 1, not the number of the document";
}

TEST(FurtherTokens, DocumentsOfOneAndTwoTokensHaveNone) {
  const HostBatch batch = row_of({4, 5, 6}, {1, 2, 2}, {0, 6, 0}, {0, 2, 0});
  EXPECT_EQ(further_tokens(batch, 1).exists, (Values{0, 1, 0}));
  EXPECT_EQ(further_tokens(batch, 1).counts, Values(3, 0));
  EXPECT_EQ(further_tokens(batch, 5).exists, Values(3, 0));
}

}  // namespace
}  // namespace ballast
