// SPDX-License-Identifier: Apache-2.0
// Values that follow from other keys.
#pragma once

#include <map>
#include <string>

#include "config/config.h"

namespace ballast {

/// Fills the computed fields and the keys whose value says "like another": run_name, base_output_directory, steps,
/// learning_rate_schedule_steps, eval_per_device_batch_size, tokenizer_path, hardware=tpu, the computed values of
/// keys.def.
///
///   scale s = 2^(3q+r): layers * 2^q, heads and mlp * 2^(q + (r>0)), emb * 2^(q + (r>1))
///   micro-batch rows = floor(devices * per_device_batch_size), a step's rows that times gradient_accumulation_steps;
///   with less than one row a device, one row a device is loaded
///
/// @throws ConfigError if both step counts are -1, a micro-batch has no row or a batch ramp has no plan
/// @source AI-Hypercomputer/maxtext src/maxtext/configs/types.py
void derive_values(Config& config, int64_t num_devices, const std::map<std::string, std::string>& environment,
                   bool needs_data);

}  // namespace ballast
