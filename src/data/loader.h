// SPDX-License-Identifier: Apache-2.0
// The one place where a configuration becomes a stream of batches.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/batch.h"

namespace ballast {

struct Config;

/// The contiguous block of every global batch that a rank holds: rows [rank * R / count, (rank + 1) * R / count).
/// Every rank runs the same stream and keeps its block, so the global batch does not depend on `count`.
struct DataShard {
  int64_t rank = 0;
  int64_t count = 1;
};

/// Training batches by `dataset_type`: synthetic, recorded or hf. A global batch has `global_batch_size_to_load` rows
/// of `max_target_length` positions; the caller cuts it into micro-batches. docs/data_formats.md describes each source.
///
/// @throws DataError for missing, empty or faulty data, also from next()
std::unique_ptr<BatchSource> make_train_source(const Config& config, const DataShard& shard);

/// Evaluation batches: no shuffle, one pass over the split, the last batch filled up with padding rows; reset() starts
/// the pass again. Rows: `global_batch_size_to_load_eval`. Null when `eval_interval` <= 0.
std::unique_ptr<BatchSource> make_eval_source(const Config& config, const DataShard& shard);

/// The name of the evaluation split: `hf_eval_split`, or `eval_split` where that is empty.
const std::string& eval_split_name(const Config& config);

}  // namespace ballast
