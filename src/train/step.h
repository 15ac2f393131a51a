// SPDX-License-Identifier: Apache-2.0
// One optimizer step: micro-batches, one divisor table, clip, update.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/batch.h"
#include "dist/world.h"
#include "metrics/train_record.h"
#include "models/decoder.h"
#include "optim/make_optimizer.h"
#include "optim/schedule.h"
#include "optim/spike_guard.h"
#include "train/expert_balance.h"
#include "train/micro_batches.h"

namespace ballast {

struct StepOptions {
  uint64_t seed = 0;  ///< of the random streams inside the model
  int64_t gradient_accumulation_steps = 1;
  int64_t micro_batch_rows = 0;  ///< rows of each micro-batch that are trained on; 0: all
  AccumulationSplit split = AccumulationSplit::kStrided;
  double z_loss_multiplier = 0;
  double gradient_clipping_threshold = 0;  ///< 0: off
  bool rounds_gradients = false;           ///< grad_dtype=bfloat16: the summed gradients are rounded to it
  ScheduleSpec schedule{};
  OptimizerOptions optimizer{};
  std::optional<SpikeGuardOptions> spike_guard;  ///< skip_step_on_spikes
  bool logs_bias_norms = false;                  ///< log_moe_bias_norms, in StepNumbers::more
  bool records_activations = false;              ///< numbers about each layer's output, in StepNumbers::more
};

/// A step in two halves, so that the caller can look at the numbers before anything changes.
class TrainStep {
 public:
  TrainStep(Decoder& decoder, std::shared_ptr<const World> world, const StepOptions& options);

  /// Forward and backward of all micro-batches. Each one's backward runs on its final share of the objective, so the
  /// sinks hold the step's gradient afterwards, fp32 in type. Fills loss, ce_sum, z_sum, target_weight_sum,
  /// raw_grad_norm, learning_rate and what is to be said of the experts.
  StepNumbers accumulate(const HostBatch& batch, int64_t step);

  /// Whether the step may be taken: loss and gradient norm are finite and, with a spike guard, its cross-entropy a
  /// token and its raw norm are in line with the steps before. Asked once a step: the guard remembers the numbers. A
  /// step without targets is neither judged nor remembered.
  bool accepts(const StepNumbers& numbers);

  /// Clips, updates and forgets the gradients, then moves the routers' selection bias. Fills grad_norm,
  /// param_norm and, with logs_bias_norms, tags of the bias.
  void update(StepNumbers& numbers);

  /// The first parameter whose value, else the first whose gradient, holds a NaN or an Inf: "NAME (value)" or
  /// "NAME (gradient)", empty if none does. To be asked between accumulate() and skip().
  std::string first_bad_parameter() const;

  /// Forgets the gradients; weights, moments and their count stay, and so does the selection bias. Marks the step as
  /// skipped. Fills param_norm and, if the raw norm is finite, grad_norm.
  void skip(StepNumbers& numbers);

  /// Expert counts of the last step, with the selection bias after its update. Empty without experts.
  std::vector<LayerLoad> expert_loads() const { return experts_.loads(); }

  Optimizer& optimizer() { return *optimizer_; }
  /// Null without skip_step_on_spikes.
  SpikeGuard* spike_guard() { return spike_guard_ ? &*spike_guard_ : nullptr; }

 private:
  void round_gradients();
  /// Fills the norms, leaves no gradient behind.
  void finish(StepNumbers& numbers, double clip, double param_squares);
  std::vector<at::Tensor> trainable(at::Tensor Parameter::* member) const;

  Decoder& decoder_;
  std::shared_ptr<const World> world_;
  StepOptions options_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<SpikeGuard> spike_guard_;
  ExpertBalance experts_;
};

/// Sums over the micro-batches and all ranks: the divisors of their step.
StepDivisors step_divisors(const std::vector<MicroBatch>& micro_batches, const DecoderSpec& spec, const World& world);

}  // namespace ballast
