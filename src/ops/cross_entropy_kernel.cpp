// SPDX-License-Identifier: Apache-2.0
#include "ops/cross_entropy_kernel.h"

#include <cmath>
#include <limits>

#include "ops/vector_math.h"

namespace ballast {
namespace {

constexpr int kLanes = 64;  // four registers of the widest vectors, to hide the latency of additions

/// tanh x: odd Taylor polynomial near 0, where the quotient would lose digits; NaN stays NaN.
BALLAST_INLINE float tanh_of(float x) {
  const float a = std::fabs(x);
  const float e = exp_of_nonpositive(-2.0F * a);
  const float far = std::copysign((1.0F - e) / (1.0F + e), x);
  const float s = x * x;
  float p = 62.0F / 2835;
  p = p * s - 17.0F / 315;
  p = p * s + 2.0F / 15;
  p = p * s - 1.0F / 3;
  const float near = x + x * (s * p);
  return a < 0.25F ? near : far;
}

BALLAST_VECTOR_CLONES void scale_row(float* row, int64_t vocab, float logits_scale) {
  for (int64_t j = 0; j < vocab; ++j) row[j] *= logits_scale;
}

BALLAST_VECTOR_CLONES void cap_row(float* row, int64_t vocab, float logits_scale, float soft_cap) {
  const float inner = logits_scale / soft_cap;
  for (int64_t j = 0; j < vocab; ++j) row[j] = soft_cap * tanh_of(row[j] * inner);
}

BALLAST_VECTOR_CLONES float row_max(const float* row, int64_t vocab) {
  float best[kLanes];
  for (float& lane : best) lane = -std::numeric_limits<float>::infinity();
  int64_t j = 0;
  for (; j + kLanes <= vocab; j += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) best[lane] = best[lane] < row[j + lane] ? row[j + lane] : best[lane];
  }
  for (int lane = 0; j < vocab; ++j, ++lane) best[lane] = best[lane] < row[j] ? row[j] : best[lane];
  float result = best[0];
  for (const float lane : best) result = result < lane ? lane : result;
  return result;
}

/// sum of e^(x - max).
BALLAST_VECTOR_CLONES double row_exp_sum(const float* row, int64_t vocab, float max) {
  float sum[kLanes] = {};
  int64_t j = 0;
  for (; j + kLanes <= vocab; j += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sum[lane] += exp_of_nonpositive(row[j + lane] - max);
  }
  for (int lane = 0; j < vocab; ++j, ++lane) sum[lane] += exp_of_nonpositive(row[j] - max);
  double result = 0;
  for (const float lane : sum) result += lane;
  return result;
}

/// Logits to factor * e^(x - max), in place.
BALLAST_VECTOR_CLONES void softmax_row(float* row, int64_t vocab, float max, float factor) {
  for (int64_t j = 0; j < vocab; ++j) row[j] = exp_of_nonpositive(row[j] - max) * factor;
}

/// The same times the slope of the soft cap, 1 - (y / cap)^2.
BALLAST_VECTOR_CLONES void capped_softmax_row(float* row, int64_t vocab, float max, float factor, float soft_cap) {
  const float inverse_cap = 1.0F / soft_cap;
  for (int64_t j = 0; j < vocab; ++j) {
    const float t = row[j] * inverse_cap;
    row[j] = exp_of_nonpositive(row[j] - max) * factor * (1.0F - t * t);
  }
}

}  // namespace

void cross_entropy_rows(const CrossEntropyRows& rows, int64_t begin, int64_t end) {
  const bool is_capped = rows.soft_cap > 0;
  for (int64_t i = begin; i < end; ++i) {
    float* row = rows.logits + i * rows.vocab;
    if (is_capped) {
      cap_row(row, rows.vocab, rows.logits_scale, rows.soft_cap);
    } else if (rows.logits_scale != 1) {
      scale_row(row, rows.vocab, rows.logits_scale);
    }
    const float max = row_max(row, rows.vocab);
    const double exp_sum = row_exp_sum(row, rows.vocab, max), log_sum = std::log(exp_sum);
    const double log_z = max + log_sum;
    const float picked = row[rows.target[i]];
    rows.ce[i] = static_cast<float>(log_sum + (static_cast<double>(max) - picked));
    rows.z[i] = static_cast<float>(rows.z_loss_multiplier * log_z * log_z);
    if (!rows.makes_gradient) continue;
    const double weight = static_cast<double>(rows.weight[i]) * rows.logits_scale;
    const float factor = static_cast<float>(weight * (1 + 2 * rows.z_loss_multiplier * log_z) / exp_sum);
    if (is_capped) {
      capped_softmax_row(row, rows.vocab, max, factor, rows.soft_cap);
    } else {
      softmax_row(row, rows.vocab, max, factor);
    }
    const double t = is_capped ? static_cast<double>(picked) / rows.soft_cap : 0;
    row[rows.target[i]] -= static_cast<float>(weight * (1 - t * t));
  }
}

}  // namespace ballast
