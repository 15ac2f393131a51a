// SPDX-License-Identifier: Apache-2.0
// The objective of a step as a list of terms, and the one table of divisors.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ballast {

/// Divisors of one step, summed over all micro-batches and ranks, known before the step's first forward pass. Every
/// term is divided by its entry as it is formed, so gradients are final as they accumulate and N micro-batches on R
/// ranks equal one big batch. Later terms (pairs) are further fields.
struct StepDivisors {
  /// Tokens that a layer routes, and groups of rows with at least one of them (BalanceGroups).
  struct Routed {
    double tokens = 0;
    double groups = 0;
  };
  double loss_tokens = 0;            ///< W: positions that count in the loss
  Routed routed{};                   ///< positions that are not padding
  double mtp_tokens = 0;             ///< targets of all prediction modules together
  std::vector<Routed> mtp_routed{};  ///< a module: positions whose token j places on is in their document
  int64_t micro_batches = 1;         ///< of all ranks together: the divisor of terms that are means over a micro-batch
  /// 1 / max(W, 1): a step without any target has loss 0 and zero gradient, no NaN.
  double per_loss_token() const { return 1.0 / (loss_tokens > 1.0 ? loss_tokens : 1.0); }
  /// The same for prediction modules.
  double per_mtp_token() const { return 1.0 / (mtp_tokens > 1.0 ? mtp_tokens : 1.0); }
  double per_micro_batch() const { return 1.0 / static_cast<double>(micro_batches); }
};

/// One term of the objective on its final share: the sum over micro-batches and ranks is the term of the step.
struct LossTerm {
  std::string name;
  at::Tensor share;  ///< scalar, carries the gradient
};

/// The terms of one micro-batch.
class LossTerms {
 public:
  void add(std::string name, at::Tensor share) { terms_.push_back({std::move(name), std::move(share)}); }
  const std::vector<LossTerm>& terms() const { return terms_; }
  /// Sum of the shares of a name, without gradient; 0 where there is none.
  double value_of(const std::string& name) const;
  /// Sum of all shares: what backward() is called on.
  at::Tensor objective() const;

 private:
  std::vector<LossTerm> terms_;
};

}  // namespace ballast
