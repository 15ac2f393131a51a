// SPDX-License-Identifier: Apache-2.0
#include "ops/rms_norm_kernel.h"

#include <cmath>

#include "ops/vector_math.h"

namespace ballast {
namespace {

constexpr int kLanes = 64;  // independent sums, so that additions need not wait for one another

BALLAST_INLINE double lane_total(const float (&lanes)[kLanes]) {
  double total = 0;
  for (const float lane : lanes) total += lane;
  return total;
}

template <typename T>
BALLAST_INLINE float square_mean(const T* __restrict x, int64_t width) {
  float lanes[kLanes] = {};
  int64_t j = 0;
  for (; j + kLanes <= width; j += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += to_float(x[j + lane]) * to_float(x[j + lane]);
  }
  for (int lane = 0; j < width; ++j, ++lane) lanes[lane] += to_float(x[j]) * to_float(x[j]);
  return static_cast<float>(lane_total(lanes) / static_cast<double>(width));
}

template <bool rounds_n, typename T>
BALLAST_INLINE float seen_by_factor(float n) {
  return rounds_n ? to_float(from_float<T>(n)) : n;
}

template <bool rounds_n, typename T>
BALLAST_INLINE void forward_rows(const RmsNormRows<T>& rows, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const T* __restrict x = rows.x + i * rows.width;
    const float* __restrict factor = rows.factor;
    T* __restrict out = rows.out + i * rows.width;
    const int64_t width = rows.width;
    const float rstd = static_cast<float>(1 / std::sqrt(square_mean(x, width) + rows.epsilon));
    rows.rstd[i] = rstd;
    for (int64_t j = 0; j < width; ++j) {
      out[j] = from_float<T>(seen_by_factor<rounds_n, T>(to_float(x[j]) * rstd) * factor[j]);
    }
  }
}

/// With a = d_out * factor: d_x = (a - n mean(a n)) rstd. The mean takes n before it is rounded.
template <bool rounds_n, typename T>
BALLAST_INLINE void backward_rows(const RmsNormRows<T>& rows, int64_t begin, int64_t end, float* __restrict d_factor) {
  for (int64_t i = begin; i < end; ++i) {
    const T* __restrict x = rows.x + i * rows.width;
    const T* __restrict g = rows.d_out + i * rows.width;
    const float* __restrict factor = rows.factor;
    T* __restrict d_x = rows.d_x + i * rows.width;
    const int64_t width = rows.width;
    const float rstd = rows.rstd[i];
    float lanes[kLanes] = {};
    int64_t j = 0;
    for (; j + kLanes <= width; j += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const int64_t k = j + lane;
        lanes[lane] += to_float(g[k]) * factor[k] * (to_float(x[k]) * rstd);
      }
    }
    for (int lane = 0; j < width; ++j, ++lane) lanes[lane] += to_float(g[j]) * factor[j] * (to_float(x[j]) * rstd);
    const float along_n = static_cast<float>(lane_total(lanes) / static_cast<double>(width));
    for (int64_t k = 0; k < width; ++k) {
      const float n = to_float(x[k]) * rstd, gradient = to_float(g[k]);
      d_factor[k] += gradient * seen_by_factor<rounds_n, T>(n);
      d_x[k] = from_float<T>((gradient * factor[k] - n * along_n) * rstd);
    }
  }
}

}  // namespace

BALLAST_VECTOR_CLONES void rms_norm_forward(const RmsNormRows<float>& rows, int64_t begin, int64_t end) {
  forward_rows<false>(rows, begin, end);
}
BALLAST_VECTOR_CLONES void rms_norm_forward(const RmsNormRows<uint16_t>& rows, int64_t begin, int64_t end) {
  if (rows.rounds_n) return forward_rows<true>(rows, begin, end);
  forward_rows<false>(rows, begin, end);
}

BALLAST_VECTOR_CLONES void rms_norm_backward(const RmsNormRows<float>& rows, int64_t begin, int64_t end,
                                             float* d_factor) {
  backward_rows<false>(rows, begin, end, d_factor);
}
BALLAST_VECTOR_CLONES void rms_norm_backward(const RmsNormRows<uint16_t>& rows, int64_t begin, int64_t end,
                                             float* d_factor) {
  if (rows.rounds_n) return backward_rows<true>(rows, begin, end, d_factor);
  backward_rows<false>(rows, begin, end, d_factor);
}

}  // namespace ballast
