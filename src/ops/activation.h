// SPDX-License-Identifier: Apache-2.0
// Activation functions and the gated product of feed-forward layers.
#pragma once

#include <ATen/core/Tensor.h>

#include "spec/decoder_spec.h"

namespace ballast {

/// act(x), elementwise, in the type of x.
at::Tensor activation(const at::Tensor& x, Activation kind);

/// act(gate) * up, elementwise. Backward keeps gate and up and computes act(gate) again.
///
/// @throws ShapeError if gate and up differ in shape or type
at::Tensor gated_activation(const at::Tensor& gate, const at::Tensor& up, Activation kind);

}  // namespace ballast
