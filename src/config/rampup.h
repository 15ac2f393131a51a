// SPDX-License-Identifier: Apache-2.0
// The batch sizes of a run whose batch grows at the start.
#pragma once

#include <cstdint>
#include <optional>

namespace ballast {

struct Config;

/// Rows of one step over all devices and micro-batches: `start_rows` at first, `increment_rows` more after each stage,
/// up to `end_rows`. A stage lasts until it has used `stage_samples` rows.
struct BatchRampup {
  int64_t start_rows = 0;
  int64_t increment_rows = 0;
  int64_t end_rows = 0;
  double stage_samples = 0;

  int64_t rows_at(int64_t step) const;
  /// The first step with end_rows.
  int64_t end_step() const;
};

/// Absent unless `enable_rampup_batch_size`. With n = (per_device_batch_size - start) / increment stages, each uses
/// global_rampup_samples / n rows. Needs the derived num_target_devices.
/// @throws ConfigError if the batch does not grow, or not by whole rows and stages
/// @source AI-Hypercomputer/maxtext src/maxtext/utils/rampup_batch.py
std::optional<BatchRampup> batch_rampup(const Config& config);

}  // namespace ballast
