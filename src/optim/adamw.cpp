// SPDX-License-Identifier: Apache-2.0
#include "optim/adamw.h"

#include <ATen/Parallel.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "optim/grad_clip.h"

namespace ballast {
double AdamW::update(const std::vector<OptimizerSlot>& slots, double learning_rate, double grad_scale) {
  AdamWNumbers numbers;
  numbers.form = form_;
  numbers.learning_rate = learning_rate;
  numbers.b1 = options_.b1;
  numbers.b2 = options_.b2;
  numbers.eps = options_.eps;
  numbers.eps_root = options_.eps_root;
  numbers.grad_scale = grad_scale;
  numbers.t = step_count();

  double squares = 0;
  std::vector<AdamWOperands> fused[2];  // by `decays`: one call takes one decay
  std::vector<at::Tensor> elsewhere;
  for (const OptimizerSlot& slot : slots) {
    numbers.weight_decay = slot.decays ? options_.weight_decay : 0;
    const AdamWOperands operands{slot.master, slot.grad, moments_of(slot, options_.m_type, /*has_second=*/true)};
    if (slot.master.is_cpu()) {
      squares += adamw_update_cpu(numbers, operands);
      continue;
    }
    elsewhere.push_back(slot.master);
    if (form_ == AdamForm::kBiasCorrected && options_.eps_root == 0 && options_.m_type == at::kFloat) {
      fused[slot.decays].push_back(operands);
    } else {
      adamw_update_plain(numbers, operands);
    }
  }
  for (const bool decays : {false, true}) {
    numbers.weight_decay = decays ? options_.weight_decay : 0;
    if (!fused[decays].empty()) adamw_update_fused(numbers, fused[decays]);
  }
  return squares + squared_norm(elsewhere);
}

double adamw_update_cpu(const AdamWNumbers& numbers, const AdamWOperands& operands) {
  float* p = operands.p.data_ptr<float>();
  const float* grad = operands.grad.const_data_ptr<float>();
  float* v = operands.moments.v.data_ptr<float>();
  const int64_t count = operands.p.numel();
  std::vector<double> sums(static_cast<size_t>((count + kNormChunk - 1) / kNormChunk));
  const auto run = [&](auto* m) {
    at::parallel_for(0, static_cast<int64_t>(sums.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        const int64_t first = chunk * kNormChunk, size = std::min(kNormChunk, count - first);
        adamw_update_span(numbers, p + first, grad + first, m + first, v + first, size);
        sums[static_cast<size_t>(chunk)] = sum_of_squares(p + first, size);  // still in the cache
      }
    });
  };
  const at::Tensor& m = operands.moments.m;
  if (m.scalar_type() == at::kBFloat16) {
    run(static_cast<uint16_t*>(m.data_ptr()));
  } else {
    run(m.data_ptr<float>());
  }
  return std::accumulate(sums.begin(), sums.end(), 0.0);
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
  const AdamFactors factors = numbers.factors();
  const at::Tensor grad = operands.grad.mul(numbers.grad_scale);
  const at::Tensor mean = m.to(at::kFloat);  // m itself where it is fp32
  mean.mul_(factors.b1).add_(grad, 1 - factors.b1);
  if (!mean.is_same(m)) m.copy_(mean);
  v.mul_(factors.b2).addcmul_(grad, grad, 1 - factors.b2);
  const at::Tensor estimate = mean.mul(numbers.learning_rate * factors.m_share);
  if (factors.g_share != 0) estimate.add_(grad, numbers.learning_rate * factors.g_share);
  const at::Tensor denominator = v.mul(factors.v_share).add_(numbers.eps_root).sqrt_().add_(numbers.eps);
  operands.p.sub_(estimate.div(denominator).add_(operands.p, numbers.learning_rate * numbers.weight_decay));
}

}  // namespace ballast
