// SPDX-License-Identifier: Apache-2.0
// The gated product and its gradients, as the operations that have one inside share them. No autograd nodes.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "ops/activation.h"
#include "ops/activation_kernel.h"

namespace ballast {

/// The kernel's name of a form; none where tensors like this one or the activation take tensor operations.
std::optional<GateKernel> gate_kernel(const GatedForm& form, const at::Tensor& gate);

/// The product, in the type of gate.
at::Tensor gated_product(const at::Tensor& gate, const at::Tensor& up, const GatedForm& form);

struct GatedGradients {
  at::Tensor d_gate, d_up;
  at::Tensor product;  ///< where asked for
};

/// Gradients of the gated product. With `makes_product` the product is made too, in the memory of d_out where the
/// kernel runs.
GatedGradients gated_gradients(const at::Tensor& gate, const at::Tensor& up, at::Tensor d_out, const GatedForm& form,
                               bool makes_product);

}  // namespace ballast
