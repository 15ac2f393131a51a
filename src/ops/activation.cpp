// SPDX-License-Identifier: Apache-2.0
#include "ops/activation.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/arguments.h"

namespace ballast {
namespace {

/// gradient * act'(x).
at::Tensor activation_backward(const at::Tensor& gradient, const at::Tensor& x, Activation kind) {
  switch (kind) {
    case Activation::kSilu:
      return at::silu_backward(gradient, x);
    case Activation::kGeluTanh:
      return at::gelu_backward(gradient, x, "tanh");
    case Activation::kGelu:
      return at::gelu_backward(gradient, x, "none");
    case Activation::kRelu:
      return at::threshold_backward(gradient, x, 0);
    case Activation::kLinear:
      return gradient;
  }
  BALLAST_CHECK(false, "unknown activation");
}

struct GatedActivationFunction : torch::autograd::Function<GatedActivationFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& gate, const at::Tensor& up,
                            int64_t kind) {
    context->save_for_backward({gate, up});
    context->saved_data["kind"] = kind;
    return activation(gate, static_cast<Activation>(kind)).mul(up);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1], &gradient = gradients[0];
    const Activation kind = static_cast<Activation>(context->saved_data["kind"].toInt());
    return {activation_backward(gradient * up, gate, kind), activation(gate, kind).mul(gradient), at::Tensor()};
  }
};

}  // namespace

at::Tensor activation(const at::Tensor& x, Activation kind) {
  switch (kind) {
    case Activation::kSilu:
      return at::silu(x);
    case Activation::kGeluTanh:
      return at::gelu(x, "tanh");
    case Activation::kGelu:
      return at::gelu(x, "none");
    case Activation::kRelu:
      return at::relu(x);
    case Activation::kLinear:
      return x;
  }
  BALLAST_CHECK(false, "unknown activation");
}

at::Tensor gated_activation(const at::Tensor& gate, const at::Tensor& up, Activation kind) {
  if (gate.sizes() != up.sizes() || gate.scalar_type() != up.scalar_type()) {
    shape_fault("ops.gated_activation", "gate and up differ", c10::str(up.sizes(), " ", up.scalar_type()),
                c10::str(gate.sizes(), " ", gate.scalar_type()));
  }
  return GatedActivationFunction::apply(gate, up, static_cast<int64_t>(kind));
}

}  // namespace ballast
