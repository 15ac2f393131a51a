// SPDX-License-Identifier: Apache-2.0
#include "optim/update_kernel.h"

#include <bit>
#include <cmath>

// The loader picks the widest clone that the processor can run.
#if defined(__x86_64__)
#define VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define VECTOR_CLONES
#endif

namespace ballast {

AdamFactors AdamWNumbers::factors() const {
  // 1 - b^exponent
  const auto missing = [](double b, int64_t exponent) { return 1 - std::pow(b, static_cast<double>(exponent)); };
  switch (form) {
    case AdamForm::kNesterov:
      return {b1, b2, b1 / missing(b1, t + 1), (1 - b1) / missing(b1, t), 1 / missing(b2, t)};
    case AdamForm::kCorrectedDecay:
      return {b1 * missing(b1, t - 1) / missing(b1, t), b2 * missing(b2, t - 1) / missing(b2, t), 1, 0, 1};
    case AdamForm::kBiasCorrected:
      break;
  }
  return {b1, b2, 1 / missing(b1, t), 0, 1 / missing(b2, t)};
}

namespace {

inline float loaded(float value) {
  return value;
}
inline float loaded(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
inline void store(float value, float& place) {
  place = value;
}
/// To bfloat16, ties to even; NaN stays NaN.
inline void store(float value, uint16_t& place) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  place = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

// Inlined into each of its callers' clones.
template <class Stored>
__attribute__((always_inline)) inline void update_elements(const AdamWNumbers& numbers, float* __restrict p,
                                                           const float* __restrict grad, Stored* __restrict m,
                                                           float* __restrict v, int64_t count) {
  const float scale = static_cast<float>(numbers.grad_scale);
  const AdamFactors factors = numbers.factors();
  const float b1 = static_cast<float>(factors.b1), one_minus_b1 = static_cast<float>(1 - factors.b1);
  const float b2 = static_cast<float>(factors.b2), one_minus_b2 = static_cast<float>(1 - factors.b2);
  const float eps = static_cast<float>(numbers.eps), eps_root = static_cast<float>(numbers.eps_root);
  const float m_size = static_cast<float>(numbers.learning_rate * factors.m_share);
  const float g_size = static_cast<float>(numbers.learning_rate * factors.g_share);
  const float v_share = static_cast<float>(factors.v_share);
  // Not folded into p * (1 - decay): next to 1, a decay of 1e-6 would keep two digits.
  const float decay = static_cast<float>(numbers.learning_rate * numbers.weight_decay);
  for (int64_t i = 0; i < count; ++i) {
    const float g = grad[i] * scale;
    const float mean = b1 * loaded(m[i]) + one_minus_b1 * g;
    store(mean, m[i]);
    v[i] = b2 * v[i] + one_minus_b2 * g * g;
    p[i] -= (m_size * mean + g_size * g) / (std::sqrt(v[i] * v_share + eps_root) + eps) + decay * p[i];
  }
}

}  // namespace

VECTOR_CLONES
void adamw_update_span(const AdamWNumbers& numbers, float* p, const float* grad, float* m, float* v, int64_t count) {
  update_elements(numbers, p, grad, m, v, count);
}

VECTOR_CLONES
void adamw_update_span(const AdamWNumbers& numbers, float* p, const float* grad, uint16_t* m, float* v, int64_t count) {
  update_elements(numbers, p, grad, m, v, count);
}

VECTOR_CLONES
double sum_of_squares(const float* x, int64_t count) {
  // Independent lanes: the compiler may not reorder one running sum, which would wait for each addition.
  constexpr int kLanes = 32;
  double lanes[kLanes] = {};
  const int64_t whole = count - count % kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) {
      const double value = x[i + j];
      lanes[j] += value * value;
    }
  }
  for (int64_t i = whole; i < count; ++i) {
    const double value = x[i];
    lanes[i - whole] += value * value;
  }
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

}  // namespace ballast
