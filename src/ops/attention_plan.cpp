// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/arguments.h"
#include "ops/attention.h"

namespace ballast {
namespace {

/// Queries a tile of a window: small against the window, so that few keys outside it are computed, large enough for
/// the products.
int64_t window_block(int64_t window) {
  return std::clamp<int64_t>(window / 4, 64, 256);
}

/// Appends the tiles of one document. Its first `window` queries see all that is before them, a causal square; each
/// further block of queries takes the keys of its own window.
void add_document(int64_t row, int64_t num_rows, int64_t begin, int64_t end, int64_t window,
                  std::vector<AttentionTile>& tiles) {
  const int64_t square_end = window > 0 ? std::min(end, begin + window) : end;
  tiles.push_back({.row = row,
                   .num_rows = num_rows,
                   .query_begin = begin,
                   .query_end = square_end,
                   .key_begin = begin,
                   .key_end = square_end,
                   .is_causal_square = true});
  const int64_t block = window_block(window);
  for (int64_t query = square_end; query < end; query += block) {
    const int64_t query_end = std::min(end, query + block);
    tiles.push_back({.row = row,
                     .num_rows = num_rows,
                     .query_begin = query,
                     .query_end = query_end,
                     .key_begin = query - window + 1,
                     .key_end = query_end,
                     .is_causal_square = false});
  }
}

/// Appends the tiles of rows [row, row + num_rows), which all have these segments.
void add_rows(int64_t row, int64_t num_rows, std::span<const int32_t> segments, int64_t window,
              std::vector<AttentionTile>& tiles) {
  const int64_t length = static_cast<int64_t>(segments.size());
  for (int64_t begin = 0, end = 0; begin < length; begin = end) {
    const int32_t document = segments[static_cast<size_t>(begin)];
    while (end < length && segments[static_cast<size_t>(end)] == document) ++end;
    if (document != 0) add_document(row, num_rows, begin, end, window, tiles);
  }
}

}  // namespace

AttentionPlan make_attention_plan(std::span<const int32_t> segments, int64_t rows, int64_t length, int64_t window) {
  if (static_cast<int64_t>(segments.size()) != rows * length || window < 0) {
    shape_fault("ops.make_attention_plan", "segments do not fit the batch, or the window is negative",
                std::to_string(segments.size()) + " segments, window " + std::to_string(window),
                std::to_string(rows) + " x " + std::to_string(length) + " segments, window >= 0");
  }
  AttentionPlan plan{.rows = rows, .length = length, .window = window, .is_whole_batch_causal = false, .tiles = {}};
  const auto row_segments = [&](int64_t row) {
    return segments.subspan(static_cast<size_t>(row * length), static_cast<size_t>(length));
  };
  for (int64_t row = 0, next = 0; row < rows; row = next) {
    // Rows that are cut alike share their tiles: one call for all of them.
    for (next = row + 1; next < rows && std::ranges::equal(row_segments(row), row_segments(next));) ++next;
    add_rows(row, next - row, row_segments(row), window, plan.tiles);
  }
  const AttentionTile whole{.row = 0,
                            .num_rows = rows,
                            .query_begin = 0,
                            .query_end = length,
                            .key_begin = 0,
                            .key_end = length,
                            .is_causal_square = true};
  plan.is_whole_batch_causal = plan.tiles.size() == 1 && plan.tiles.front() == whole;
  return plan;
}

}  // namespace ballast
