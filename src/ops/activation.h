// SPDX-License-Identifier: Apache-2.0
// Activation functions and the gated product of feed-forward layers.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "spec/decoder_spec.h"

namespace ballast {

/// The gated product of a feed-forward layer:
///   product = act(min(gate, limit)) * (clip(up, -limit, limit) + up_offset), act(g) = g * sigmoid(alpha * g) for
///   kSilu.
/// A gradient passes where the value lies on the limit, as in torch's clamp.
struct GatedForm {
  Activation activation = Activation::kSilu;
  double limit = 0;  ///< 0: off
  double alpha = 1;  ///< other than 1 with kSilu only
  double up_offset = 0;
};

/// act(x), elementwise, in the type of x.
at::Tensor activation(const at::Tensor& x, Activation kind);

/// act(gate) * up, elementwise. Backward keeps gate and up and computes act(gate) again. On the CPU one pass a
/// direction for SiLU and GELU's tanh form. bf16 is computed in fp32 and rounded once.
///
/// @throws ShapeError if gate and up differ in shape or type
at::Tensor gated_activation(const at::Tensor& gate, const at::Tensor& up, Activation kind);

/// linear(product, weight, bias) of the gated product with a limit, without keeping the product for backward, which
/// makes it again in the pass that forms the gradients of gate and up.
///
/// @param gate, up  [..., F]
/// @param weight    [O, F]
/// @param bias      [O]; undefined: none
/// @param given     the result if it is known from an earlier run, as linear_group() takes it
/// @param limit     GatedForm's; 0: off
/// @return          [..., O] in the type of gate
/// @throws ShapeError if the shapes disagree
at::Tensor gated_linear(const at::Tensor& gate, const at::Tensor& up, Activation kind, const at::Tensor& weight,
                        const at::Tensor& bias, const std::vector<at::Tensor>& given = {}, double limit = 0);

}  // namespace ballast
