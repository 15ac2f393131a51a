// SPDX-License-Identifier: Apache-2.0
// What all optimizers share: one update of all parameters, and the state that has to be kept.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace ballast {

/// One parameter in one update. All tensors are contiguous, of one shape and on one device.
struct OptimizerSlot {
  std::string name;
  at::Tensor master;   ///< fp32, updated in place
  at::Tensor grad;     ///< fp32; undefined: no update, no decay, no state. Off the CPU it may be left scaled
  bool decays = true;  ///< weight decay applies
};

/// State of one parameter, shape of the parameter. What an optimizer does not need is undefined.
struct Moments {
  at::Tensor m;  ///< running mean of the gradient, fp32 or bf16 (mu_dtype)
  at::Tensor v;  ///< running mean of its square, fp32
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Updates every slot that has a gradient; moments start at zero when a name is first seen.
  /// `grad_scale` is the clip factor, folded into the pass.
  /// @return the sum of the squares of all masters after the update, formed in its pass where that is possible
  /// @throws ShapeError if tensors of a slot disagree in type, shape or layout
  double step(std::span<const OptimizerSlot> slots, double learning_rate, double grad_scale);

  /// Number of updates so far.
  int64_t step_count() const { return step_count_; }
  /// State by parameter name; only parameters that were updated have some.
  const std::map<std::string, Moments>& moments() const { return moments_; }
  /// Replaces the whole state; the tensors are kept, not copied.
  void restore(int64_t step_count, std::map<std::string, Moments> moments);

 protected:
  /// The update itself: every slot has a gradient, and step_count() counts this update.
  /// @return the sum of the squares of the slots' masters afterwards
  virtual double update(const std::vector<OptimizerSlot>& slots, double learning_rate, double grad_scale) = 0;

  /// The state of a slot, m of type `m_type`; zeros are made for what it lacks. v only with `has_second`.
  Moments& moments_of(const OptimizerSlot& slot, at::ScalarType m_type, bool has_second);

 private:
  int64_t step_count_ = 0;
  std::map<std::string, Moments> moments_;
};

/// p = p - lr * grad * grad_scale. No momentum, no decay, no state.
class Sgd : public Optimizer {
 protected:
  double update(const std::vector<OptimizerSlot>& slots, double learning_rate, double grad_scale) override;
};

}  // namespace ballast
