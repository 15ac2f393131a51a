// SPDX-License-Identifier: Apache-2.0
#include "ops/expert_kernel.h"

#include <algorithm>

#include "ops/vector_math.h"

namespace ballast {
namespace {

constexpr int64_t kBlock = 256;  // columns whose sums stay in the first cache

template <typename T>
BALLAST_INLINE void sum_pass(const TokenRows& token, const T* __restrict rows, T* __restrict out) {
  for (int64_t begin = 0; begin < token.width; begin += kBlock) {
    const int64_t count = std::min(kBlock, token.width - begin);
    float sums[kBlock] = {};
    for (int64_t k = 0; k < token.num_choices; ++k) {
      if (token.row[k] < 0) continue;
      const float weight = token.weight == nullptr ? 1.0F : token.weight[k];
      const T* __restrict row = rows + token.row[k] * token.width + begin;
      for (int64_t j = 0; j < count; ++j) sums[j] += weight * to_float(row[j]);
    }
    for (int64_t j = 0; j < count; ++j) out[begin + j] = from_float<T>(sums[j]);
  }
}

}  // namespace

BALLAST_VECTOR_CLONES void sum_token_rows(const TokenRows& token, const float* rows, float* out) {
  sum_pass(token, rows, out);
}
BALLAST_VECTOR_CLONES void sum_token_rows(const TokenRows& token, const uint16_t* rows, uint16_t* out) {
  sum_pass(token, rows, out);
}

}  // namespace ballast
