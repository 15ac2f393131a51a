// SPDX-License-Identifier: Apache-2.0
#include "metrics/train_record.h"

#include <algorithm>
#include <cmath>

namespace ballast {
namespace {

void set_if(Record& record, const std::string& tag, std::optional<double> value) {
  if (value) record.set(tag, *value);
}

void set_losses(Record& record, const StepNumbers& numbers) {
  const double weights = std::max(numbers.target_weight_sum, 1.0);
  record.set("learning/loss", numbers.loss);
  if (numbers.has_lm_loss) {
    const double lm_loss = numbers.ce_sum / weights;
    record.set("learning/lm_loss", lm_loss);
    record.set("learning/perplexity", std::exp(lm_loss));
  }
  record.set("learning/z_loss", numbers.z_sum / weights);
  record.set("learning/moe_lb_loss", numbers.moe_lb_loss);
  set_if(record, "learning/router_z_loss", numbers.router_z_loss);
  set_if(record, "learning/moe_dropped_share", numbers.moe_dropped_share);
  record.set("learning/indexer_loss", numbers.indexer_loss);
  record.set("learning/mtp_loss", numbers.mtp_loss);
  record.set("learning/total_weights", numbers.target_weight_sum);
  set_if(record, "learning/dpo_loss", numbers.dpo_loss);
  set_if(record, "learning/reward_accuracy", numbers.reward_accuracy);
}

void set_rates(Record& record, const StepNumbers& numbers) {
  record.set("perf/step_time_seconds", numbers.step_seconds);
  if (numbers.tflops) {
    const double rate = *numbers.tflops / numbers.step_seconds;
    record.set("perf/per_device_tflops", *numbers.tflops);
    record.set("perf/per_device_tflops_per_sec", rate);
    if (numbers.peak_tflops) record.set("perf/mfu", rate / *numbers.peak_tflops);
  }
  if (numbers.tokens) {
    record.set("perf/per_device_tokens", *numbers.tokens);
    record.set("perf/per_device_tokens_per_sec", *numbers.tokens / numbers.step_seconds);
  }
}

}  // namespace

Record train_record(const StepNumbers& numbers) {
  Record record{"train", numbers.step, {}};
  set_losses(record, numbers);
  set_if(record, "learning/raw_grad_norm", numbers.raw_grad_norm);
  set_if(record, "learning/grad_norm", numbers.grad_norm);
  set_if(record, "learning/param_norm", numbers.param_norm);
  record.set("learning/current_learning_rate", numbers.learning_rate);
  set_if(record, "learning/max_logits", numbers.max_logits);
  set_if(record, "optim/step_skipped", numbers.is_step_skipped);
  set_rates(record, numbers);
  for (const auto& [tag, value] : numbers.more) record.set(tag, value);
  return record;
}

}  // namespace ballast
