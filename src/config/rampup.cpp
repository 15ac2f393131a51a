// SPDX-License-Identifier: Apache-2.0
#include "config/rampup.h"

#include <cmath>
#include <string>

#include "config/checks.h"
#include "config/config.h"
#include "config/key_table.h"
#include "errors/errors.h"

namespace ballast {
namespace {

[[noreturn]] void refuse_rampup(const Config& config, const char* key, const std::string& what,
                                const std::string& need) {
  throw ConfigError({.where = place_of(config.origin(key), key),
                     .what = what,
                     .got = to_text(get_value(config, *find_key(key))),
                     .need = need,
                     .attempt = {}});
}

int64_t rows_of(const Config& config, const char* key, double rows_per_device) {
  const double rows = rows_per_device * static_cast<double>(config.num_target_devices);
  if (rows < 1 || rows != std::floor(rows)) {
    refuse_rampup(config, key, "a batch grows by whole rows",
                  "a whole number of rows on " + std::to_string(config.num_target_devices) + " device(s)");
  }
  return static_cast<int64_t>(rows) * config.gradient_accumulation_steps;
}

}  // namespace

int64_t BatchRampup::rows_at(int64_t step) const {
  for (int64_t rows = start_rows; rows < end_rows; rows += increment_rows) {
    const auto stage_steps = static_cast<int64_t>(std::ceil(stage_samples / static_cast<double>(rows)));
    if (step < stage_steps) return rows;
    step -= stage_steps;
  }
  return end_rows;
}

int64_t BatchRampup::end_step() const {
  int64_t steps = 0;
  for (int64_t rows = start_rows; rows < end_rows; rows += increment_rows) {
    steps += static_cast<int64_t>(std::ceil(stage_samples / static_cast<double>(rows)));
  }
  return steps;
}

std::optional<BatchRampup> batch_rampup(const Config& config) {
  if (!config.enable_rampup_batch_size) return std::nullopt;
  BatchRampup rampup;
  rampup.start_rows = rows_of(config, "per_device_batch_size_start", config.per_device_batch_size_start);
  rampup.increment_rows = rows_of(config, "per_device_batch_size_increment", config.per_device_batch_size_increment);
  rampup.end_rows = rows_of(config, "per_device_batch_size", config.per_device_batch_size);
  const int64_t growth = rampup.end_rows - rampup.start_rows;
  if (growth <= 0) {
    refuse_rampup(config, "per_device_batch_size_start", "the batch does not grow",
                  "less than per_device_batch_size=" + to_text(config.per_device_batch_size));
  }
  if (growth % rampup.increment_rows != 0) {
    refuse_rampup(config, "per_device_batch_size_increment", "its steps do not end at per_device_batch_size",
                  "a divisor of " + to_text(config.per_device_batch_size - config.per_device_batch_size_start));
  }
  const int64_t num_stages = growth / rampup.increment_rows;
  rampup.stage_samples = static_cast<double>(config.global_rampup_samples) / static_cast<double>(num_stages);
  return rampup;
}

}  // namespace ballast
