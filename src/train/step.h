// SPDX-License-Identifier: Apache-2.0
// One optimizer step: micro-batches, one divisor table, clip, update.
#pragma once

#include <memory>
#include <vector>

#include "data/batch.h"
#include "dist/world.h"
#include "metrics/train_record.h"
#include "models/decoder.h"
#include "optim/adamw.h"
#include "optim/schedule.h"
#include "train/micro_batches.h"

namespace ballast {

struct StepOptions {
  uint64_t seed = 0;  ///< of the random streams inside the model
  int64_t gradient_accumulation_steps = 1;
  int64_t micro_batch_rows = 0;  ///< rows of each micro-batch that are trained on; 0: all
  AccumulationSplit split = AccumulationSplit::kStrided;
  double z_loss_multiplier = 0;
  double gradient_clipping_threshold = 0;  ///< 0: off
  ScheduleSpec schedule{};
  AdamWOptions adamw{};
  bool records_activations = false;  ///< numbers about each layer's output, in StepNumbers::more
};

/// A step in two halves, so that the caller can look at the numbers before anything changes.
class TrainStep {
 public:
  TrainStep(Decoder& decoder, std::shared_ptr<const World> world, const StepOptions& options);

  /// Forward and backward of all micro-batches. Each one's backward runs on its final share of the objective, so the
  /// sinks hold the step's gradient afterwards. Fills loss, ce_sum, z_sum, target_weight_sum, raw_grad_norm and
  /// learning_rate.
  StepNumbers accumulate(const HostBatch& batch, int64_t step);

  /// Clips, updates and forgets the gradients. Fills grad_norm and param_norm.
  void update(StepNumbers& numbers);

  /// Forgets the gradients; weights, moments and their count stay. Marks the step as skipped.
  void skip(StepNumbers& numbers);

  const AdamW& optimizer() const { return optimizer_; }

 private:
  void forget_gradients();
  std::vector<at::Tensor> trainable(at::Tensor Parameter::* member) const;

  Decoder& decoder_;
  std::shared_ptr<const World> world_;
  StepOptions options_;
  AdamW optimizer_;
};

/// Counted targets of the micro-batches over all ranks: the divisors of their step.
StepDivisors step_divisors(const std::vector<MicroBatch>& micro_batches, const World& world);

}  // namespace ballast
