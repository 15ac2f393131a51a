// SPDX-License-Identifier: Apache-2.0
// The record of one training step, built from plain numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "metrics/record.h"

namespace ballast {

/// Numbers of one optimizer step, summed or averaged over all ranks and micro-batches. Losses are in nats.
/// An absent optional leaves its tag out of the record.
struct StepNumbers {
  int64_t step = 0;                         ///< 0-based
  double loss = 0;                          ///< the whole objective
  double ce_sum = 0;                        ///< sum of cross-entropy over counted targets, without z-loss
  double z_sum = 0;                         ///< sum of z_loss_multiplier * logZ^2 over counted targets
  double target_weight_sum = 0;             ///< number of counted targets; pairs for DPO
  bool has_lm_loss = true;                  ///< false where the step trains no cross-entropy
  double moe_lb_loss = 0;                   ///< weighted, mean over micro-batches
  std::optional<double> router_z_loss;      ///< weighted; absent without the term
  std::optional<double> moe_dropped_share;  ///< of the choices, by full experts; absent where nothing is ever dropped
  double indexer_loss = 0;                  ///< weighted, mean over micro-batches
  double mtp_loss = 0;                      ///< weighted, token mean
  std::optional<double> dpo_loss;
  std::optional<double> reward_accuracy;
  std::optional<double> raw_grad_norm;  ///< before clipping
  std::optional<double> grad_norm;      ///< after clipping
  std::optional<double> param_norm;     ///< after the update
  double learning_rate = 0;             ///< used in this step
  std::optional<double> max_logits;
  std::optional<bool> is_step_skipped;               ///< skip_step_on_spikes
  double step_seconds = 0;                           ///< wall time since the previous step's end
  std::optional<double> tflops;                      ///< TFLOP a device; absent during batch ramp-up
  std::optional<double> tokens;                      ///< positions a device; absent during batch ramp-up
  std::optional<double> peak_tflops;                 ///< TFLOP/s of the device where known
  std::vector<std::pair<std::string, double>> more;  ///< further tags: expert load, per-layer statistics
};

/// All tags of docs/metrics.md that apply, in their order. lm_loss = ce_sum / max(W, 1), perplexity = exp(lm_loss),
/// z_loss = z_sum / max(W, 1), W = target_weight_sum.
Record train_record(const StepNumbers& numbers);

}  // namespace ballast
