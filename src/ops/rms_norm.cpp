// SPDX-License-Identifier: Apache-2.0
#include "ops/rms_norm.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "ops/arguments.h"
#include "ops/kernel_arguments.h"
#include "ops/rms_norm_kernel.h"

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

/// Norm and one number a row, 1 / sqrt(mean(x^2) + epsilon).
struct RmsNormForward {
  at::Tensor out, rstd;
};
struct RmsNormBackward {
  at::Tensor d_x, d_weight;
};

/// By tensor operations: any device, any type.
RmsNormForward composed_forward(const at::Tensor& x, const at::Tensor& weight, NormForm form, double epsilon) {
  const at::ScalarType type = at::toOpMathType(x.scalar_type());
  const at::Tensor wide = x.to(type);
  const at::Tensor rstd = wide.square().mean(-1, /*keepdim=*/true).add_(epsilon).rsqrt_();
  at::Tensor n = wide * rstd;
  if (weight.defined()) n = rounded_norm(n, form, x.scalar_type()).mul_(norm_factor(weight, form, type));
  return {n.to(x.scalar_type()), rstd};
}

RmsNormBackward composed_backward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& rstd,
                                  const at::Tensor& gradient, NormForm form) {
  const at::ScalarType type = rstd.scalar_type();
  const at::Tensor n = x.to(type).mul(rstd);
  at::Tensor g = gradient.to(type);
  at::Tensor d_weight;
  if (weight.defined()) {
    const at::Tensor product = g * rounded_norm(n, form, x.scalar_type());
    d_weight = product.reshape({-1, x.size(-1)}).sum(0).to(weight.scalar_type());
    g = g * norm_factor(weight, form, type);
  }
  const at::Tensor along_n = (g * n).mean(-1, /*keepdim=*/true);
  return {at::addcmul(g, n, along_n, -1).mul_(rstd).to(x.scalar_type()), d_weight};
}

/// The operands that both directions of the kernel read; `x` is contiguous.
template <typename T>
RmsNormRows<T> kernel_operands(const at::Tensor& x, const at::Tensor& factor, const at::Tensor& weight,
                               const at::Tensor& rstd, NormForm form) {
  RmsNormRows<T> rows;
  rows.x = kernel_data<T>(x);
  rows.width = x.size(-1);
  rows.factor = factor.const_data_ptr<float>();
  rows.rounds_n = weight.defined() && form == NormForm::kCastThenScale;
  rows.rstd = rstd.mutable_data_ptr<float>();
  return rows;
}

at::Tensor kernel_factor(const at::Tensor& x, const at::Tensor& weight, NormForm form) {
  if (!weight.defined()) return at::ones({x.size(-1)}, at::kFloat);
  return norm_factor(weight, form, at::kFloat).contiguous();
}

RmsNormForward kernel_forward(const at::Tensor& x_given, const at::Tensor& weight, NormForm form, double epsilon) {
  const at::Tensor x = x_given.contiguous(), factor = kernel_factor(x, weight, form);
  std::vector<int64_t> outer = x.sizes().vec();
  outer.back() = 1;
  const RmsNormForward result{at::empty(x.sizes(), x.options()), at::empty(outer, at::kFloat)};
  with_kernel_type(x.scalar_type(), [&]<typename T>(T) {
    RmsNormRows<T> rows = kernel_operands<T>(x, factor, weight, result.rstd, form);
    rows.epsilon = epsilon;
    rows.out = mutable_kernel_data<T>(result.out);
    at::parallel_for(0, result.rstd.numel(), kKernelGrain / rows.width + 1,
                     [&](int64_t begin, int64_t end) { rms_norm_forward(rows, begin, end); });
  });
  return result;
}

/// Rows whose share of the weight's gradient is summed on its own: a fixed number, so that the sum does not depend on
/// the number of threads.
constexpr int64_t kRowsAPart = 64;

RmsNormBackward kernel_backward(const at::Tensor& x_given, const at::Tensor& weight, const at::Tensor& rstd,
                                const at::Tensor& gradient, NormForm form) {
  const at::Tensor x = x_given.contiguous(), g = gradient.contiguous(), factor = kernel_factor(x, weight, form);
  const int64_t num_rows = rstd.numel(), num_parts = (num_rows + kRowsAPart - 1) / kRowsAPart;
  const at::Tensor part_PC = at::zeros({num_parts, x.size(-1)}, at::kFloat);
  const at::Tensor d_x = at::empty(x.sizes(), x.options());
  with_kernel_type(x.scalar_type(), [&]<typename T>(T) {
    RmsNormRows<T> rows = kernel_operands<T>(x, factor, weight, rstd, form);
    rows.d_out = kernel_data<T>(g);
    rows.d_x = mutable_kernel_data<T>(d_x);
    at::parallel_for(0, num_parts, kKernelGrain / (kRowsAPart * rows.width) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        rms_norm_backward(rows, part * kRowsAPart, std::min((part + 1) * kRowsAPart, num_rows),
                          part_PC.mutable_data_ptr<float>() + part * rows.width);
      }
    });
  });
  return {d_x, weight.defined() ? part_PC.sum(0).to(weight.scalar_type()) : at::Tensor()};
}

struct RmsNormFunction : torch::autograd::Function<RmsNormFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const std::optional<at::Tensor>& given_weight, int64_t form, double epsilon) {
    const at::Tensor weight = given_weight.value_or(at::Tensor());
    const RmsNormForward result =
        (kernels_take({x}) ? kernel_forward : composed_forward)(x, weight, static_cast<NormForm>(form), epsilon);
    context->save_for_backward({x, weight, result.rstd});
    context->saved_data["form"] = form;
    return result.out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const NormForm form = static_cast<NormForm>(context->saved_data["form"].toInt());
    const RmsNormBackward d = (kernels_take({saved[0]}) ? kernel_backward : composed_backward)(
        saved[0], saved[1], saved[2], gradients[0], form);
    return {d.d_x, d.d_weight, at::Tensor(), at::Tensor()};
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
