// SPDX-License-Identifier: Apache-2.0
// The rotation of rope.h on the CPU; fp32, or bf16 as bits (uint16_t) with fp32 inside.
#pragma once

#include <cstdint>

namespace ballast {

/// Heads of rows * length tokens. T is float or uint16_t.
template <typename T>
struct RopeHeads {
  const T* x = nullptr;  ///< [rows, length, num_heads, width] by the strides below, channels side by side
  int64_t row_stride = 0, position_stride = 0, head_stride = 0;
  T* out = nullptr;  ///< the same shape, contiguous
  int64_t length = 0, num_heads = 0, width = 0;
  const float* cos = nullptr;  ///< [rows * length, num_pairs]
  const float* sin = nullptr;
  int64_t num_pairs = 0;
  int64_t first = 0;  ///< channel of a head where the pairs begin
  bool is_interleaved = false;
  float direction = 1;  ///< -1 turns back
};

/// (a, b) -> (a cos - b sin, b cos + a sin) in tokens [begin, end); channels outside the pairs are copied.
/// Products are rounded before they are added: in fp32 the bits of the same tensor operations.
void rope_tokens(const RopeHeads<float>& heads, int64_t begin, int64_t end);
void rope_tokens(const RopeHeads<uint16_t>& heads, int64_t begin, int64_t end);

}  // namespace ballast
