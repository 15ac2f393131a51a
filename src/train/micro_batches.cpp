// SPDX-License-Identifier: Apache-2.0
#include "train/micro_batches.h"

#include <algorithm>

#include "errors/errors.h"

namespace ballast {
namespace {

HostBatch select_rows(const HostBatch& batch, const std::vector<int64_t>& rows) {
  HostBatch selected;
  selected.resize(static_cast<int64_t>(rows.size()), batch.length);
  for (const auto member : {&HostBatch::inputs, &HostBatch::inputs_position, &HostBatch::inputs_segmentation,
                            &HostBatch::targets, &HostBatch::targets_position, &HostBatch::targets_segmentation}) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto begin = (batch.*member).begin() + rows[i] * batch.length;
      std::copy(begin, begin + batch.length, (selected.*member).begin() + static_cast<int64_t>(i) * batch.length);
    }
  }
  return selected;
}

}  // namespace

std::vector<MicroBatch> split_batch(const HostBatch& batch, int64_t count, int64_t rows_used, AccumulationSplit split) {
  BALLAST_CHECK(count > 0 && batch.rows % count == 0, "rows of a step must divide by the micro-batches");
  const int64_t size = batch.rows / count;
  const int64_t kept = rows_used > 0 ? std::min(rows_used, size) : size;
  std::vector<MicroBatch> micro_batches;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int64_t> rows;
    for (int64_t j = 0; j < kept; ++j) {
      rows.push_back(split == AccumulationSplit::kStrided ? i + j * count : i * size + j);
    }
    micro_batches.push_back({select_rows(batch, rows), rows});
  }
  return micro_batches;
}

}  // namespace ballast
