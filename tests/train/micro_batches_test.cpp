// SPDX-License-Identifier: Apache-2.0
#include "train/micro_batches.h"

#include <gtest/gtest.h>

#include "errors/errors.h"
#include "support/tiny_model.h"

namespace ballast {
namespace {

std::vector<int64_t> instances(int64_t count, int64_t rows_used, AccumulationSplit split) {
  std::vector<int64_t> all;
  for (const MicroBatch& part : split_batch(testing::tiny_batch(4, 12), count, rows_used, split)) {
    all.insert(all.end(), part.instances.begin(), part.instances.end());
  }
  return all;
}

TEST(SplitBatch, StridedTakesEveryNthRowAndContiguousBlocks) {
  EXPECT_EQ(instances(2, 0, AccumulationSplit::kStrided), (std::vector<int64_t>{0, 2, 1, 3}));
  EXPECT_EQ(instances(2, 0, AccumulationSplit::kContiguous), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(SplitBatch, KeepsTheFirstRowsOfEachMicroBatchWhenFewerAreTrainedOn) {
  EXPECT_EQ(instances(2, 1, AccumulationSplit::kStrided), (std::vector<int64_t>{0, 1}));
}

TEST(SplitBatch, CarriesAllFieldsOfARow) {
  const HostBatch batch = testing::tiny_batch(4, 12);
  const auto parts = split_batch(batch, 4, 0, AccumulationSplit::kStrided);
  for (int64_t row = 0; row < 4; ++row) {
    const HostBatch& part = parts[static_cast<size_t>(row)].batch;
    for (const auto member : {&HostBatch::inputs, &HostBatch::inputs_position, &HostBatch::inputs_segmentation,
                              &HostBatch::targets, &HostBatch::targets_segmentation}) {
      EXPECT_TRUE(std::equal((part.*member).begin(), (part.*member).end(), (batch.*member).begin() + row * 12));
    }
  }
}

TEST(SplitBatch, RefusesRowsThatDoNotDivide) {
  EXPECT_THROW(split_batch(testing::tiny_batch(4, 12), 3, 0, AccumulationSplit::kStrided), InternalError);
}

}  // namespace
}  // namespace ballast
