// SPDX-License-Identifier: Apache-2.0
// The rows of rms_norm.h on the CPU; fp32, or bf16 as bits (uint16_t) with fp32 inside.
#pragma once

#include <cstdint>

namespace ballast {

/// Rows of one norm, all arrays contiguous. T is float or uint16_t.
template <typename T>
struct RmsNormRows {
  const T* x = nullptr;  ///< [rows, width]
  int64_t width = 0;
  const float* factor = nullptr;  ///< [width], multiplies n
  bool rounds_n = false;          ///< n is rounded to T before the factor
  float* rstd = nullptr;          ///< [rows]: written by forward, read by backward
  double epsilon = 0;
  T* out = nullptr;          ///< [rows, width], forward
  const T* d_out = nullptr;  ///< [rows, width], backward
  T* d_x = nullptr;          ///< [rows, width], backward
};

/// Rows [begin, end). Each row is summed in an order that depends neither on threads nor on the width of vectors.
void rms_norm_forward(const RmsNormRows<float>& rows, int64_t begin, int64_t end);
void rms_norm_forward(const RmsNormRows<uint16_t>& rows, int64_t begin, int64_t end);

/// d_x of rows [begin, end); adds sum of d_out * n over these rows, in their order, to d_factor [width].
void rms_norm_backward(const RmsNormRows<float>& rows, int64_t begin, int64_t end, float* d_factor);
void rms_norm_backward(const RmsNormRows<uint16_t>& rows, int64_t begin, int64_t end, float* d_factor);

}  // namespace ballast
