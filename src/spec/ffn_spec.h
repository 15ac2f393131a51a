// SPDX-License-Identifier: Apache-2.0
// Feed-forward layers as data: dense ones and those with experts, from configuration keys.
#pragma once

#include <vector>

#include "config/config.h"
#include "spec/decoder_spec.h"
#include "spec/family.h"

namespace ballast {

/// One entry a layer. Layer i has experts iff num_experts > 1, i >= first_num_dense_layers and (i + 1) is a multiple of
/// interleave_moe_layer_step. Throws ConfigError where the keys contradict one another.
std::vector<FfnSpec> make_ffns(const Config& config, const Family& family);

/// How the experts are trained. Throws ConfigError for a moving bias that the router does not have.
MoeTraining make_moe_training(const Config& config, const Family& family);

}  // namespace ballast
