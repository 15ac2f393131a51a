// SPDX-License-Identifier: Apache-2.0
// Aggregates of one evaluation: token-weighted losses, batch means of auxiliary terms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "metrics/record.h"

namespace ballast {

/// Sums and means of one evaluation batch over all ranks.
struct EvalBatch {
  double ce_sum = 0;             ///< nats, without z-loss
  double z_sum = 0;              ///< sum of z_loss_multiplier * logZ^2
  double target_weight_sum = 0;  ///< counted targets; pairs for DPO
  double moe_lb_loss = 0;
  double indexer_loss = 0;
  double mtp_loss = 0;
  double mtp_acceptance_rate_percent = 0;
  std::optional<double> dpo_reward_accuracy;  ///< mean over the batch's pairs
};

class EvalTotals {
 public:
  void add(const EvalBatch& batch);
  int64_t num_batches() const { return num_batches_; }
  /// Nats a counted target: sum of cross-entropy over sum of weights; 0 before the first counted target.
  double avg_loss() const;
  /// The eval tags of docs/metrics.md. Perplexity is exp(avg_loss); z-loss and reward accuracy are weighted means,
  /// the other auxiliary terms means over batches. Usable after every batch for the running line.
  Record record(int64_t train_step) const;
  /// Throws DataError naming `split` unless a batch with at least one counted target was added.
  void check_not_empty(const std::string& split) const;

 private:
  EvalBatch sums_;
  int64_t num_batches_ = 0;
};

}  // namespace ballast
