// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer.h"

#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <sstream>
#include <utility>

#include "errors/errors.h"
#include "optim/grad_clip.h"

namespace ballast {
namespace {

void check_operand(const OptimizerSlot& slot, const char* what, const at::Tensor& tensor,
                   at::ScalarType type = at::kFloat) {
  if (tensor.scalar_type() == type && tensor.is_contiguous() && tensor.sizes() == slot.master.sizes() &&
      tensor.device() == slot.master.device()) {
    return;
  }
  std::ostringstream got, need;
  got << tensor.scalar_type() << " " << tensor.sizes() << " on " << tensor.device()
      << (tensor.is_contiguous() ? "" : ", not contiguous");
  need << "contiguous " << type << " " << slot.master.sizes() << " on " << slot.master.device();
  Fault fault;
  fault.where = "optimizer.step";
  fault.what = std::string(what) + " of " + slot.name + " does not fit";
  fault.got = got.str();
  fault.need = need.str();
  throw ShapeError(fault);
}

}  // namespace

double Optimizer::step(std::span<const OptimizerSlot> slots, double learning_rate, double grad_scale) {
  const c10::AutoGradMode no_grad(false);
  std::vector<OptimizerSlot> reached;
  std::vector<at::Tensor> others;
  for (const OptimizerSlot& slot : slots) {
    if (!slot.grad.defined()) {
      others.push_back(slot.master);
      continue;
    }
    check_operand(slot, "master", slot.master);
    check_operand(slot, "gradient", slot.grad);
    reached.push_back(slot);
  }
  ++step_count_;
  return update(reached, learning_rate, grad_scale) + squared_norm(others);
}

void Optimizer::restore(int64_t step_count, std::map<std::string, Moments> moments) {
  step_count_ = step_count;
  moments_ = std::move(moments);
}

Moments& Optimizer::moments_of(const OptimizerSlot& slot, at::ScalarType m_type, bool has_second) {
  Moments& moments = moments_[slot.name];
  if (!moments.m.defined()) moments.m = at::zeros_like(slot.master, slot.master.options().dtype(m_type));
  check_operand(slot, "first moment", moments.m, m_type);
  if (!has_second) return moments;
  if (!moments.v.defined()) moments.v = at::zeros_like(slot.master);
  check_operand(slot, "second moment", moments.v);
  return moments;
}

double Sgd::update(const std::vector<OptimizerSlot>& slots, double learning_rate, double grad_scale) {
  std::vector<at::Tensor> masters;
  for (const OptimizerSlot& slot : slots) {
    masters.push_back(slot.master);
    masters.back().sub_(slot.grad, learning_rate * grad_scale);
  }
  return squared_norm(masters);
}

}  // namespace ballast
