// SPDX-License-Identifier: Apache-2.0
// Root-mean-square normalisation with the weight forms of the supported families.
#pragma once

#include <ATen/core/Tensor.h>

#include "spec/decoder_spec.h"

namespace ballast {

/// RMS norm over the last axis: n = x / sqrt(mean(x^2) + epsilon), then the weight as `form` says.
///
/// Statistics and products are fp32 (fp64 for fp64 input). Backward keeps x and one number a row, not n.
///
/// @param x       [..., C], any floating type
/// @param weight  [C], any floating type; undefined: no weight, cast(n)
/// @return        [..., C] in the type of x; the gradient of weight has the type of weight
/// @throws ShapeError if weight is not [C]
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, NormForm form, double epsilon);

}  // namespace ballast
