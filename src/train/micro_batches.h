// SPDX-License-Identifier: Apache-2.0
// How the rows of a step become micro-batches.
#pragma once

#include <cstdint>
#include <vector>

#include "data/batch.h"

namespace ballast {

enum class AccumulationSplit {
  kStrided,     ///< micro-batch i takes rows i, i + N, i + 2N, ... (MaxText)
  kContiguous,  ///< micro-batch i takes the i-th block of rows
};

struct MicroBatch {
  HostBatch batch;
  std::vector<int64_t> instances;  ///< number of each row in the step's batch
};

/// Cuts `batch` into `count` micro-batches of equal size and keeps the first `rows_used` rows of each
/// (per_device_batch_size < 1 loads more rows than it trains on; 0 keeps all).
/// @throws InternalError unless the rows divide by `count`
std::vector<MicroBatch> split_batch(const HostBatch& batch, int64_t count, int64_t rows_used, AccumulationSplit split);

}  // namespace ballast
