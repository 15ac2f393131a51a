// SPDX-License-Identifier: Apache-2.0
#include "ops/linear.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/arguments.h"

namespace ballast {
namespace {

/// The case of differing types: only x as it came is kept, its wide copy is made again in backward.
struct MixedLinearFunction : torch::autograd::Function<MixedLinearFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& given_bias) {
    const at::Tensor bias = given_bias.value_or(at::Tensor());
    context->save_for_backward({x, weight, bias});
    const at::ScalarType type = at::promote_types(x.scalar_type(), weight.scalar_type());
    return at::linear(x.to(type), weight.to(type), bias.defined() ? bias.to(type) : bias).to(x.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &bias = saved[2];
    const at::ScalarType type = at::promote_types(x.scalar_type(), weight.scalar_type());
    const at::Tensor g = gradients[0].to(type).reshape({-1, weight.size(0)});
    at::Tensor d_x, d_weight, d_bias;
    if (context->needs_input_grad(0)) d_x = g.mm(weight.to(type)).view(x.sizes()).to(x.scalar_type());
    if (context->needs_input_grad(1)) {
      d_weight = g.t().mm(x.to(type).reshape({-1, weight.size(1)})).to(weight.scalar_type());
    }
    if (bias.defined() && context->needs_input_grad(2)) d_bias = g.sum(0).to(bias.scalar_type());
    return {d_x, d_weight, d_bias};
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (weight.dim() != 2 || x.size(-1) != weight.size(1)) {
    shape_fault("ops.linear", "x does not fit the weight", c10::str("x ", x.sizes(), ", weight ", weight.sizes()),
                "[..., I] and [O, I]");
  }
  if (bias.defined() && (bias.dim() != 1 || bias.size(0) != weight.size(0))) {
    shape_fault("ops.linear", "the bias does not fit the weight", c10::str(bias.sizes()),
                c10::str("[", weight.size(0), "]"));
  }
  const bool is_uniform =
      x.scalar_type() == weight.scalar_type() && (!bias.defined() || bias.scalar_type() == weight.scalar_type());
  return is_uniform ? at::linear(x, weight, bias) : MixedLinearFunction::apply(x, weight, optional_of(bias));
}

}  // namespace ballast
