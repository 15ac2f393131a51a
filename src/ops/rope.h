// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding.
//
// Letters beyond the project's: R = rotary_dim / 2, the number of pairs.
#pragma once

#include <ATen/core/Tensor.h>

#include "spec/decoder_spec.h"

namespace ballast {

/// cos and sin of every pair's angle at every position, times the attention factor. One table serves all layers that
/// share a RopeSpec.
struct RopeTable {
  at::Tensor cos_BTR;
  at::Tensor sin_BTR;
};

/// Angles are position * frequency in fp32, as the models were trained (fp64 if table_dtype is fp64).
///
/// @param position_BT  integer positions, restarting at 0 in each document
/// @param table_dtype  the type of activations; ignored (fp32 kept) where rope.multiplies_in_fp32
RopeTable rope_table(const at::Tensor& position_BT, const RopeSpec& rope, at::ScalarType table_dtype);

/// Rotates rotary_dim channels of every head from first_channel on; the others pass through. Backward is the rotation
/// by the negative angle and keeps the table only.
///
/// @param x_BTHK  queries or keys
/// @return        [B, T, H, K] in the type of x
/// @throws ShapeError if the table does not fit x or first_channel + rotary_dim exceeds K
at::Tensor apply_rope(const at::Tensor& x_BTHK, const RopeTable& table, const RopeSpec& rope,
                      int64_t first_channel = 0);

}  // namespace ballast
