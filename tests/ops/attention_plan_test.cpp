// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "errors/errors.h"
#include "ops/attention.h"

namespace ballast {
namespace {

AttentionTile square(int64_t row, int64_t num_rows, int64_t begin, int64_t end) {
  return {.row = row,
          .num_rows = num_rows,
          .query_begin = begin,
          .query_end = end,
          .key_begin = begin,
          .key_end = end,
          .is_causal_square = true};
}

TEST(AttentionPlan, OneDocumentARowIsOneTileForTheWholeBatch) {
  const std::vector<int32_t> segments(3 * 8, 1);
  for (const int64_t window : {0, 8, 100}) {
    const AttentionPlan plan = make_attention_plan(segments, 3, 8, window);
    EXPECT_TRUE(plan.is_whole_batch_causal);
    EXPECT_EQ(plan.tiles, (std::vector<AttentionTile>{square(0, 3, 0, 8)}));
  }
}

TEST(AttentionPlan, CutsRowsAtDocumentsAndLeavesPaddingOut) {
  const std::vector<int32_t> segments = {1, 1, 1, 2, 2, 0,  //
                                         0, 5, 5, 5, 5, 5,  //
                                         0, 0, 0, 0, 0, 0};
  const AttentionPlan plan = make_attention_plan(segments, 3, 6, 0);
  EXPECT_FALSE(plan.is_whole_batch_causal);
  EXPECT_EQ(plan.tiles, (std::vector<AttentionTile>{square(0, 1, 0, 3), square(0, 1, 3, 5), square(1, 1, 1, 6)}));
}

TEST(AttentionPlan, NeighbouringRowsCutAlikeShareTheirTiles) {
  const std::vector<int32_t> segments = {1, 1, 2, 0, 1, 1, 2, 0, 1, 1, 1, 1};
  const AttentionPlan plan = make_attention_plan(segments, 3, 4, 0);
  EXPECT_EQ(plan.tiles, (std::vector<AttentionTile>{square(0, 2, 0, 2), square(0, 2, 2, 3), square(2, 1, 0, 4)}));
}

TEST(AttentionPlan, WindowTilesCoverEveryQueryOnceWithItsKeys) {
  const int64_t length = 700, window = 130;
  std::vector<int32_t> segments(static_cast<size_t>(length), 1);
  for (int64_t t = 0; t < 90; ++t) segments[static_cast<size_t>(t)] = 2;
  const AttentionPlan plan = make_attention_plan(segments, 1, length, window);
  std::vector<int> times(static_cast<size_t>(length), 0);
  for (const AttentionTile& tile : plan.tiles) {
    const int64_t document = tile.query_begin < 90 ? 0 : 90;
    EXPECT_EQ(tile.key_end, tile.query_end);
    EXPECT_GE(tile.key_begin, document);
    for (int64_t t = tile.query_begin; t < tile.query_end; ++t) {
      ++times[static_cast<size_t>(t)];
      EXPECT_LE(tile.key_begin, std::max(document, t - window + 1));
      EXPECT_TRUE(!tile.is_causal_square || t - tile.key_begin < window);
    }
  }
  EXPECT_EQ(times, std::vector<int>(static_cast<size_t>(length), 1));
}

TEST(AttentionPlan, RefusesSegmentsOfAnotherSize) {
  const std::vector<int32_t> segments(7, 1);
  EXPECT_THROW(make_attention_plan(segments, 2, 4, 0), ShapeError);
  EXPECT_THROW(make_attention_plan(segments, 1, 7, -1), ShapeError);
}

}  // namespace
}  // namespace ballast
