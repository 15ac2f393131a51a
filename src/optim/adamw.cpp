// SPDX-License-Identifier: Apache-2.0
#include "optim/adamw.h"

#include <ATen/Parallel.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <sstream>
#include <utility>

#include "errors/errors.h"

namespace ballast {
namespace {

void check_operand(const OptimizerSlot& slot, const char* what, const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kFloat && tensor.is_contiguous() && tensor.sizes() == slot.master.sizes() &&
      tensor.device() == slot.master.device()) {
    return;
  }
  std::ostringstream got, need;
  got << tensor.scalar_type() << " " << tensor.sizes() << " on " << tensor.device()
      << (tensor.is_contiguous() ? "" : ", not contiguous");
  need << "contiguous Float " << slot.master.sizes() << " on " << slot.master.device();
  Fault fault;
  fault.where = "adamw.step";
  fault.what = std::string(what) + " of " + slot.name + " does not fit";
  fault.got = got.str();
  fault.need = need.str();
  throw ShapeError(fault);
}

/// A parameter with more elements is cut among the threads.
constexpr int64_t kAdamWGrain = 1 << 15;

}  // namespace

void AdamW::restore(int64_t step_count, std::map<std::string, AdamWMoments> moments) {
  step_count_ = step_count;
  moments_ = std::move(moments);
}

void AdamW::step(std::span<const OptimizerSlot> slots, double learning_rate, double grad_scale) {
  AdamWNumbers numbers;
  numbers.learning_rate = learning_rate;
  numbers.b1 = options_.b1;
  numbers.b2 = options_.b2;
  numbers.eps = options_.eps;
  numbers.eps_root = options_.eps_root;
  numbers.grad_scale = grad_scale;
  numbers.t = ++step_count_;

  std::vector<AdamWOperands> fused[2];  // by `decays`: one call takes one decay
  for (const OptimizerSlot& slot : slots) {
    if (!slot.grad.defined()) continue;
    check_operand(slot, "master", slot.master);
    check_operand(slot, "gradient", slot.grad);
    AdamWMoments& moments = moments_[slot.name];
    if (!moments.m.defined()) moments = {at::zeros_like(slot.master), at::zeros_like(slot.master)};
    check_operand(slot, "first moment", moments.m);
    check_operand(slot, "second moment", moments.v);

    numbers.weight_decay = slot.decays ? options_.weight_decay : 0;
    const AdamWOperands operands{slot.master, slot.grad, moments};
    if (slot.master.is_cpu()) {
      adamw_update_cpu(numbers, operands);
    } else if (options_.eps_root == 0) {
      fused[slot.decays].push_back(operands);
    } else {
      adamw_update_plain(numbers, operands);
    }
  }
  for (const bool decays : {false, true}) {
    numbers.weight_decay = decays ? options_.weight_decay : 0;
    if (!fused[decays].empty()) adamw_update_fused(numbers, fused[decays]);
  }
}

void adamw_update_cpu(const AdamWNumbers& numbers, const AdamWOperands& operands) {
  float* p = operands.p.data_ptr<float>();
  const float* grad = operands.grad.const_data_ptr<float>();
  float* m = operands.moments.m.data_ptr<float>();
  float* v = operands.moments.v.data_ptr<float>();
  at::parallel_for(0, operands.p.numel(), kAdamWGrain, [&](int64_t begin, int64_t end) {
    adamw_update_span(numbers, p + begin, grad + begin, m + begin, v + begin, end - begin);
  });
}

void adamw_update_fused(const AdamWNumbers& numbers, const std::vector<AdamWOperands>& operands) {
  const c10::AutoGradMode no_grad(false);
  const auto on_device = [&](double value) {
    return at::full({}, value, operands.front().p.options().requires_grad(false));
  };
  std::vector<at::Tensor> p, grad, m, v;
  for (const AdamWOperands& one : operands) {
    p.push_back(one.p);
    grad.push_back(one.grad);
    m.push_back(one.moments.m);
    v.push_back(one.moments.v);
  }
  const std::vector<at::Tensor> counts(p.size(), on_device(static_cast<double>(numbers.t)));
  // ATen divides by its scale.
  std::optional<at::Tensor> divisor;
  if (numbers.grad_scale != 1) divisor = on_device(1 / numbers.grad_scale);
  at::_fused_adamw_(p, grad, m, v, {}, counts, numbers.learning_rate, numbers.b1, numbers.b2, numbers.weight_decay,
                    numbers.eps,
                    /*amsgrad=*/false, /*maximize=*/false, divisor, /*found_inf=*/std::nullopt);
}

void adamw_update_plain(const AdamWNumbers& numbers, const AdamWOperands& operands) {
  const c10::AutoGradMode no_grad(false);
  const auto& [m, v] = operands.moments;
  const double step_size = numbers.learning_rate * numbers.m_correction();
  const double decay = numbers.learning_rate * numbers.weight_decay;
  const at::Tensor grad = operands.grad.mul(numbers.grad_scale);
  m.mul_(numbers.b1).add_(grad, 1 - numbers.b1);
  v.mul_(numbers.b2).addcmul_(grad, grad, 1 - numbers.b2);
  const at::Tensor denominator = v.mul(numbers.v_correction()).add_(numbers.eps_root).sqrt_().add_(numbers.eps);
  operands.p.sub_(m.div(denominator).mul_(step_size).add_(operands.p, decay));
}

}  // namespace ballast
