// SPDX-License-Identifier: Apache-2.0
// The parts of a projection that operations with a linear inside share.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace ballast {

/// Throws ShapeError of `where` if x [..., I], weight [O, I] and bias [O] (or undefined) do not fit together.
void check_linear(const std::string& where, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

/// x weight^T + bias in the wider type of x and weight, then cast to the type of x. No autograd node of its own.
at::Tensor linear_value(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

/// The gradient [..., O] of the result as rows [N, O] in `type`.
at::Tensor gradient_rows(const at::Tensor& gradient, const at::Tensor& weight, at::ScalarType type);

/// g_NO^T x, [O, I] in the type of weight: a fresh contiguous tensor, which a gradient sink takes over without a copy.
at::Tensor weight_gradient(const at::Tensor& g_NO, const at::Tensor& x, const at::Tensor& weight);

}  // namespace ballast
