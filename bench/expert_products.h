// SPDX-License-Identifier: Apache-2.0
// The bare matrix products of routed experts: the limit that a layer of them is measured against.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <atomic>

#include "ops/expert_plan.h"

namespace ballast {

struct ExpertShape {
  int64_t experts, width, expert_width;
};

/// The products of a layer of routed experts alone, forward and backward, expert by expert on all threads, on memory
/// that is there.
class ExpertProducts {
 public:
  ExpertProducts(const at::Tensor& expert_NK, const ExpertShape& shape, at::ScalarType type)
      : plan_(plan_experts(expert_NK, shape.experts)) {
    const int64_t rows = plan_.num_rows();
    for (at::Tensor& tensor : wide_) tensor = at::randn({rows, shape.width}).to(type);
    for (at::Tensor& tensor : narrow_) tensor = at::randn({rows, shape.expert_width}).to(type);
    for (at::Tensor& tensor : matrices_) tensor = at::randn({shape.experts, shape.expert_width, shape.width}).to(type);
    for (at::Tensor& tensor : gradients_) tensor = at::empty({shape.experts, shape.expert_width, shape.width}).to(type);
  }
  void operator()() const {
    std::atomic<int64_t> next{0};
    at::parallel_for(0, at::get_num_threads(), 1, [&](int64_t, int64_t) {
      const at::AutoDispatchBelowADInplaceOrView no_autograd;
      for (int64_t e = next++; e < plan_.num_experts(); e = next++) run(e);
    });
  }

 private:
  void run(int64_t e) const {
    const auto i = static_cast<size_t>(e);
    const auto rows = [&](const at::Tensor& all) {
      return all.narrow(0, plan_.offsets[i], plan_.offsets[i + 1] - plan_.offsets[i]);
    };
    at::Tensor y = rows(wide_[1]), d_x = rows(wide_[3]), gate = rows(narrow_[0]), up = rows(narrow_[1]),
               d_product = rows(narrow_[2]);
    const at::Tensor x = rows(wide_[0]), d_y = rows(wide_[2]), gate_FD = matrices_[0][e], up_FD = matrices_[1][e],
                     down_FD = matrices_[2][e];
    at::Tensor d_gate_FD = gradients_[0][e], d_up_FD = gradients_[1][e], d_down_FD = gradients_[2][e];
    at::mm_out(gate, x, gate_FD.t());
    at::mm_out(up, x, up_FD.t());
    at::mm_out(y, gate, down_FD);
    at::mm_out(d_product, d_y, down_FD.t());
    at::mm_out(d_down_FD, gate.t(), d_y);
    at::mm_out(d_gate_FD, gate.t(), x);
    at::mm_out(d_up_FD, up.t(), x);
    at::mm_out(d_x, gate, gate_FD);
    at::addmm_out(d_x, d_x, up, up_FD);
  }

  ExpertPlan plan_;
  at::Tensor wide_[4], narrow_[3], matrices_[3], gradients_[3];
};

}  // namespace ballast
