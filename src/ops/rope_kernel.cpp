// SPDX-License-Identifier: Apache-2.0
#include "ops/rope_kernel.h"

#include "ops/vector_math.h"

namespace ballast {
namespace {

/// Pair r is (first[step * r], second[step * r]): neighbours with step 2, halves of the rotating channels with step 1.
template <int step, typename T>
BALLAST_INLINE void rotate_head(const T* __restrict head, T* __restrict out_head, const RopeHeads<T>& heads,
                                const float* __restrict cos, const float* __restrict sin) {
  const int64_t num_pairs = heads.num_pairs, second = step == 2 ? 1 : num_pairs;
  const float direction = heads.direction;
  const T* __restrict x = head + heads.first;
  T* __restrict out = out_head + heads.first;
  for (int64_t j = 0; j < heads.first; ++j) out_head[j] = head[j];
  for (int64_t r = 0; r < num_pairs; ++r) {
    const float a = to_float(x[step * r]), b = to_float(x[step * r + second]);
    const float c = cos[r], s = sin[r] * direction;
    out[step * r] = from_float<T>(a * c - b * s);
    out[step * r + second] = from_float<T>(b * c + a * s);
  }
  for (int64_t j = heads.first + 2 * num_pairs; j < heads.width; ++j) out_head[j] = head[j];
}

template <int step, typename T>
BALLAST_INLINE void rotate_tokens(const RopeHeads<T>& heads, int64_t begin, int64_t end) {
  for (int64_t n = begin; n < end; ++n) {
    const T* token = heads.x + n / heads.length * heads.row_stride + n % heads.length * heads.position_stride;
    for (int64_t h = 0; h < heads.num_heads; ++h) {
      rotate_head<step>(token + h * heads.head_stride, heads.out + (n * heads.num_heads + h) * heads.width, heads,
                        heads.cos + n * heads.num_pairs, heads.sin + n * heads.num_pairs);
    }
  }
}

}  // namespace

BALLAST_VECTOR_CLONES void rope_tokens(const RopeHeads<float>& heads, int64_t begin, int64_t end) {
  if (heads.is_interleaved) return rotate_tokens<2>(heads, begin, end);
  rotate_tokens<1>(heads, begin, end);
}
BALLAST_VECTOR_CLONES void rope_tokens(const RopeHeads<uint16_t>& heads, int64_t begin, int64_t end) {
  if (heads.is_interleaved) return rotate_tokens<2>(heads, begin, end);
  rotate_tokens<1>(heads, begin, end);
}

}  // namespace ballast
