// SPDX-License-Identifier: Apache-2.0
#include "train/setup.h"

#include <ATen/Context.h>

#include "config/config.h"
#include "errors/errors.h"
#include "errors/log.h"
#include "metrics/writer.h"
#include "models/checkpoint_weights.h"
#include "optim/param_mask.h"

namespace ballast {
namespace {

void apply_masks(Decoder& decoder, const Config& config) {
  std::vector<std::string> names;
  std::vector<Parameter*> parameters;
  for (const UnitPtr& unit : decoder.units()) {
    for (Parameter& parameter : unit->parameters()) {
      names.push_back(parameter.spec.name);
      parameters.push_back(&parameter);
    }
  }
  const std::vector<ParamMembership> memberships =
      mask_parameters(names, config.adamw_mask, config.trainable_parameters_mask);
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i]->decays = memberships[i].decays;
    parameters[i]->is_trainable = memberships[i].trains;
    parameters[i]->master.set_requires_grad(memberships[i].trains);
  }
}

}  // namespace

at::Device resolve_device(const Config& config) {
  const bool has_gpu = at::hasCUDA();
  if (config.hardware == "cpu") return at::Device(at::kCPU);
  if (config.hardware == "auto" || config.hardware == "tpu") return at::Device(has_gpu ? at::kCUDA : at::kCPU);
  if (!has_gpu) {
    throw ConfigError({.where = "hardware",
                       .what = "no GPU is visible to this program",
                       .got = config.hardware,
                       .need = {},
                       .attempt = "hardware=cpu, or a build against a CUDA libtorch"});
  }
  return at::Device(at::kCUDA);
}

std::unique_ptr<Decoder> make_decoder(const Config& config, const std::shared_ptr<const World>& world,
                                      const at::Device& device) {
  const RematPlan remat = make_remat_plan(config);
  const DecoderOptions options{.rematerializes = remat.rematerializes,
                               .num_vocab_tiling = config.num_vocab_tiling,
                               .vocab_tiling_seq_major = config.vocab_tiling_seq_major,
                               .kept = remat.kept};
  auto decoder = std::make_unique<Decoder>(
      make_decoder_spec(config), Precision::resolve(config.dtype, config.weight_dtype, device), world, device, options);
  apply_masks(*decoder, config);
  for (const UnitPtr& unit : decoder->units()) unit->set_keeps_copies(!config.ga_params_loop_barrier);
  return decoder;
}

void set_first_weights(Decoder& decoder, const Config& config) {
  const std::string& weights = config.load_parameters_path.empty() ? config.hf_model_path : config.load_parameters_path;
  if (weights.empty()) {
    initialize_parameters(decoder.units(), static_cast<uint64_t>(config.init_weights_seed));
  } else {
    // A folder has no prediction modules; a checkpoint's replace these. They stand before the head.
    const auto num_modules = static_cast<int64_t>(decoder.spec().mtp.layers.size());
    const auto end = decoder.units().end() - 1;
    initialize_parameters({end - num_modules, end}, static_cast<uint64_t>(config.init_weights_seed));
    load_weights(decoder, weights);
    log_info("weights: " + weights);
  }
}

std::filesystem::path checkpoints_root(const Config& config) {
  return run_folder(config) / "checkpoints";
}

StepOptions step_options(const Config& config) {
  StepOptions options;
  options.seed = static_cast<uint64_t>(config.init_weights_seed);
  options.gradient_accumulation_steps = config.gradient_accumulation_steps;
  options.micro_batch_rows = config.micro_batch_size_to_train_on;
  options.split =
      config.gradient_accumulation_split == "contiguous" ? AccumulationSplit::kContiguous : AccumulationSplit::kStrided;
  options.z_loss_multiplier = config.z_loss_multiplier;
  options.gradient_clipping_threshold = config.gradient_clipping_threshold;
  options.logs_bias_norms = config.log_moe_bias_norms;
  options.records_activations = config.record_internal_nn_metrics == 1;
  options.schedule = schedule_spec(config);
  options.rounds_gradients = config.grad_dtype == "bfloat16";
  options.optimizer = optimizer_options(config);
  if (config.skip_step_on_spikes) {
    options.spike_guard = {.interval = config.skip_step_interval, .scaling_factor = config.skip_step_scaling_factor};
  }
  return options;
}

EvalOptions eval_options(const Config& config) {
  return {.max_batches = config.eval_steps,
          .batch_rows = config.micro_batch_size_to_eval_on,
          .z_loss_multiplier = config.z_loss_multiplier};
}

}  // namespace ballast
