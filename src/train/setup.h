// SPDX-License-Identifier: Apache-2.0
// From a configuration to the parts of a run.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <memory>

#include "dist/world.h"
#include "models/decoder.h"
#include "train/eval_pass.h"
#include "train/step.h"

namespace ballast {

struct Config;

/// `hardware`: auto takes a GPU where there is one. @throws ConfigError when the asked device is absent
at::Device resolve_device(const Config& config);

/// The decoder of the configuration; membership masks are applied, its weights are open.
/// @throws ConfigError
std::unique_ptr<Decoder> make_decoder(const Config& config, const std::shared_ptr<const World>& world,
                                      const at::Device& device);

/// Weights of a new run: from `load_parameters_path`, else from `hf_model_path`, else drawn from `init_weights_seed`.
/// @throws CheckpointError
void set_first_weights(Decoder& decoder, const Config& config);

/// Folder of the run's checkpoints.
std::filesystem::path checkpoints_root(const Config& config);

StepOptions step_options(const Config& config);
EvalOptions eval_options(const Config& config);

}  // namespace ballast
