// SPDX-License-Identifier: Apache-2.0
// AdamW with decoupled weight decay on fp32 masters and moments.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "optim/update_kernel.h"

namespace ballast {

/// Keys `adam_b1`, `adam_b2`, `adam_eps`, `adam_eps_root`, `adam_weight_decay`.
struct AdamWOptions {
  double b1 = 0.9;
  double b2 = 0.95;
  double eps = 1e-8;    ///< outside the root
  double eps_root = 0;  ///< inside the root
  double weight_decay = 0.1;
};

/// One parameter in one update. All tensors are contiguous, of one shape and on one device.
struct OptimizerSlot {
  std::string name;
  at::Tensor master;   ///< fp32, updated in place
  at::Tensor grad;     ///< fp32; undefined: no update, no decay, no state. Off the CPU it may be left scaled
  bool decays = true;  ///< weight decay applies
};

/// First and second moment of one parameter, fp32, shape of the parameter.
struct AdamWMoments {
  at::Tensor m;
  at::Tensor v;
};

/// With t = number of updates including this one and g = grad * grad_scale:
///
///   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2
///   p = p - lr * (m / (1 - b1^t) / (sqrt(v / (1 - b2^t) + eps_root) + eps) + weight_decay * p)
///
/// @source google-deepmind/optax adamw (order of operations); Loshchilov & Hutter 2019
class AdamW {
 public:
  explicit AdamW(const AdamWOptions& options) : options_(options) {}

  /// Updates every slot that has a gradient; moments start at zero when a name is first seen.
  /// `grad_scale` is the clip factor, folded into the pass.
  /// @throws ShapeError if tensors of a slot disagree in type, shape or layout
  void step(std::span<const OptimizerSlot> slots, double learning_rate, double grad_scale);

  /// Number of updates so far.
  int64_t step_count() const { return step_count_; }
  /// Moments by parameter name; only parameters that were updated have some.
  const std::map<std::string, AdamWMoments>& moments() const { return moments_; }
  /// Replaces the whole state; the tensors are kept, not copied.
  void restore(int64_t step_count, std::map<std::string, AdamWMoments> moments);

 private:
  AdamWOptions options_;
  int64_t step_count_ = 0;
  std::map<std::string, AdamWMoments> moments_;
};

/// What one slot's update works on.
struct AdamWOperands {
  at::Tensor p;
  at::Tensor grad;
  AdamWMoments moments;
};

/// The update in one pass by our own kernel. CPU only.
void adamw_update_cpu(const AdamWNumbers& numbers, const AdamWOperands& operands);

/// The update of several parameters by at::_fused_adamw_; leaves grad * grad_scale in grad. Needs eps_root 0.
void adamw_update_fused(const AdamWNumbers& numbers, const std::vector<AdamWOperands>& operands);

/// The update as a chain of ATen operations. Any device; the reference of the other two.
void adamw_update_plain(const AdamWNumbers& numbers, const AdamWOperands& operands);

}  // namespace ballast
