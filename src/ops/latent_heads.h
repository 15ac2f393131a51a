// SPDX-License-Identifier: Apache-2.0
// Keys and values of latent attention, put together for the attention operation.
//
// Letters beyond the project's: N channels of a head without rotation, R those with, W width of a value, C = N + W.
#pragma once

#include <ATen/core/Tensor.h>

namespace ballast {

struct LatentHeads {
  at::Tensor k_BTHK;  ///< K = N + R: each head's own channels, then the rotated ones
  at::Tensor v_BTHW;  ///< a view of the projection
};

/// Heads from the projection of the latent, [B, T, H, N + W], and the rotated part that all keys share. The key is
/// written once, the value not at all; backward writes the gradient of the projection once.
///
/// @param kv_BTHC       each head's key channels without rotation, then its value
/// @param shared_BT1R   rotated key channels
/// @param num_unrotated N
/// @throws ShapeError if the shapes disagree
LatentHeads latent_heads(const at::Tensor& kv_BTHC, const at::Tensor& shared_BT1R, int64_t num_unrotated);

}  // namespace ballast
