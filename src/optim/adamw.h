// SPDX-License-Identifier: Apache-2.0
// AdamW with decoupled weight decay on fp32 masters and moments, and two other forms of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "optim/optimizer.h"
#include "optim/update_kernel.h"

namespace ballast {

/// Keys `adam_b1`, `adam_b2`, `adam_eps`, `adam_eps_root`, `adam_weight_decay`, `mu_dtype`.
struct AdamWOptions {
  double b1 = 0.9;
  double b2 = 0.95;
  double eps = 1e-8;    ///< outside the root
  double eps_root = 0;  ///< inside the root
  double weight_decay = 0.1;
  at::ScalarType m_type = at::kFloat;  ///< kFloat or kBFloat16; a mean is rounded after the step that formed it
};

/// With t = number of updates including this one and g = grad * grad_scale:
///
///   kBiasCorrected   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2
///                    n = m / (1 - b1^t),  w = v / (1 - b2^t)
///   kNesterov        the same, but n = b1 m / (1 - b1^(t+1)) + (1 - b1) g / (1 - b1^t)
///   kCorrectedDecay  m = d1 m + (1 - d1) g,  v = d2 v + (1 - d2) g^2  with  di = bi (1 - bi^(t-1)) / (1 - bi^t)
///                    n = m,  w = v
///   all              p = p - lr * (n / (sqrt(w + eps_root) + eps) + weight_decay * p)
///
/// The first and the last take the same steps; their stored moments differ.
/// @source google-deepmind/optax adamw (order of operations, nesterov); Loshchilov & Hutter 2019; google/praxis
///         sharded_adam (kCorrectedDecay), after Shazeer & Stern 2018, section 7.1
class AdamW : public Optimizer {
 public:
  explicit AdamW(const AdamWOptions& options, AdamForm form = AdamForm::kBiasCorrected)
      : options_(options), form_(form) {}

 protected:
  double update(const std::vector<OptimizerSlot>& slots, double learning_rate, double grad_scale) override;

 private:
  AdamWOptions options_;
  AdamForm form_;
};

/// What one slot's update works on.
struct AdamWOperands {
  at::Tensor p;
  at::Tensor grad;
  Moments moments;
};

/// The update in one pass by our own kernel. CPU only.
/// @return the sum of the squares of p afterwards, with the bits that squared_norm() has
double adamw_update_cpu(const AdamWNumbers& numbers, const AdamWOperands& operands);

/// The update of several parameters by at::_fused_adamw_; leaves grad * grad_scale in grad. Needs kBiasCorrected,
/// eps_root 0 and fp32 moments.
void adamw_update_fused(const AdamWNumbers& numbers, const std::vector<AdamWOperands>& operands);

/// The update as a chain of ATen operations. Any device; the reference of the other two.
void adamw_update_plain(const AdamWNumbers& numbers, const AdamWOperands& operands);

}  // namespace ballast
