// SPDX-License-Identifier: Apache-2.0
// Global gradient norm and the factor that clips it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace ballast {

/// Elements whose squares are summed at once; the sums of a tensor's stretches are added in their order.
inline constexpr int64_t kNormChunk = 1 << 16;

/// Sum of the squares of all elements of all tensors, in double. Undefined tensors count nothing. On the CPU the order
/// of summation is fixed: the result does not depend on the thread count. Ranks add their sums before the root.
double squared_norm(std::span<const at::Tensor> tensors);

/// sqrt(squared_norm(tensors)).
double global_norm(std::span<const at::Tensor> tensors);

/// What the gradients are multiplied by: threshold / norm if norm >= threshold, else 1. There is no epsilon.
/// `threshold` 0 clips never. The caller has dealt with a norm that is not finite.
double clip_factor(double norm, double threshold);

}  // namespace ballast
