// SPDX-License-Identifier: Apache-2.0
#include "ops/rms_norm.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/arguments.h"

namespace ballast {
namespace {

/// The factor of every channel in the type of the statistics.
at::Tensor norm_factor(const at::Tensor& weight, NormForm form, at::ScalarType type) {
  const at::Tensor factor = weight.to(type);
  return form == NormForm::kOnePlusScale ? factor + 1 : factor;
}

/// n as the factor sees it: rounded to the type of x first where the form casts before it scales.
at::Tensor rounded_norm(const at::Tensor& n, NormForm form, at::ScalarType x_type) {
  return form == NormForm::kCastThenScale ? n.to(x_type).to(n.scalar_type()) : n;
}

struct RmsNormFunction : torch::autograd::Function<RmsNormFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const std::optional<at::Tensor>& given_weight, int64_t form, double epsilon) {
    const at::Tensor weight = given_weight.value_or(at::Tensor());
    const at::ScalarType type = at::toOpMathType(x.scalar_type());
    const at::Tensor wide = x.to(type);
    const at::Tensor rstd = wide.square().mean(-1, /*keepdim=*/true).add_(epsilon).rsqrt_();
    context->save_for_backward({x, weight, rstd});
    context->saved_data["form"] = form;
    at::Tensor n = wide * rstd;
    if (weight.defined()) {
      const NormForm norm_form = static_cast<NormForm>(form);
      n = rounded_norm(n, norm_form, x.scalar_type()).mul_(norm_factor(weight, norm_form, type));
    }
    return n.to(x.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &rstd = saved[2];
    const NormForm form = static_cast<NormForm>(context->saved_data["form"].toInt());
    const at::ScalarType type = rstd.scalar_type();
    const at::Tensor n = x.to(type).mul(rstd);
    at::Tensor g = gradients[0].to(type);
    at::Tensor d_weight;
    if (weight.defined()) {
      if (context->needs_input_grad(1)) {
        const at::Tensor product = g * rounded_norm(n, form, x.scalar_type());
        d_weight = product.reshape({-1, x.size(-1)}).sum(0).to(weight.scalar_type());
      }
      g = g * norm_factor(weight, form, type);
    }
    const at::Tensor along_n = (g * n).mean(-1, /*keepdim=*/true);
    const at::Tensor d_x = at::addcmul(g, n, along_n, -1).mul_(rstd).to(x.scalar_type());
    return {d_x, d_weight, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, NormForm form, double epsilon) {
  if (weight.defined() && (weight.dim() != 1 || weight.size(0) != x.size(-1))) {
    shape_fault("ops.rms_norm", "the weight does not fit the last axis of x", c10::str(weight.sizes()),
                c10::str("[", x.size(-1), "]"));
  }
  return RmsNormFunction::apply(x, optional_of(weight), static_cast<int64_t>(form), epsilon);
}

}  // namespace ballast
