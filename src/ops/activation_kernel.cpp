// SPDX-License-Identifier: Apache-2.0
#include "ops/activation_kernel.h"

#include <cmath>

#include "ops/vector_math.h"

namespace ballast {
namespace {

struct GateValue {
  float value, slope;
};

/// act(x) and act'(x) = s + x s (1 - s) w'. With e = e^-|w| neither s nor s (1 - s) loses digits.
template <SigmoidGate kind>
BALLAST_INLINE GateValue gate_value(float x, float alpha) {
  float w = alpha * x, w_slope = alpha;
  if constexpr (kind == SigmoidGate::kGeluTanh) {
    constexpr float kTwice = 1.59576912F;  // 2 sqrt(2 / pi)
    const float cubic = 0.044715F * (x * x);
    w = kTwice * x * (1.0F + cubic);
    w_slope = kTwice * (1.0F + 3.0F * cubic);
  }
  const float e = exp_of_nonpositive(-std::fabs(w)), r = 1.0F / (1.0F + e);
  const float s = w < 0.0F ? e * r : r;
  return {x * s, s + x * (e * r * r) * w_slope};
}

/// The product is act * up; its derivatives are up * slope and by_up.
struct GatedPair {
  float act, up, slope, by_up;
};

template <SigmoidGate kind, bool is_plain>
BALLAST_INLINE GatedPair gated_pair(const GateKernel& form, float gate, float up) {
  if constexpr (is_plain) {
    const GateValue act = gate_value<kind>(gate, 1.0F);
    return {act.value, up, act.slope, act.value};
  } else {
    // The comparisons stand so that NaN passes.
    const GateValue act = gate_value<kind>(gate > form.limit ? form.limit : gate, form.alpha);
    const float above = up < -form.limit ? -form.limit : up;
    const float clipped = above > form.limit ? form.limit : above;
    return {act.value, clipped + form.up_offset, gate > form.limit ? 0.0F : act.slope,
            std::fabs(up) > form.limit ? 0.0F : act.value};
  }
}

template <SigmoidGate kind, bool is_plain, typename T>
BALLAST_INLINE void forward_pass(const GateKernel& form, const T* __restrict gate, const T* __restrict up,
                                 T* __restrict out, int64_t count) {
  const GateKernel local = form;
  for (int64_t i = 0; i < count; ++i) {
    const GatedPair pair = gated_pair<kind, is_plain>(local, to_float(gate[i]), to_float(up[i]));
    out[i] = from_float<T>(pair.act * pair.up);
  }
}

template <SigmoidGate kind, bool is_plain, typename T>
BALLAST_INLINE void backward_pass(const GateKernel& form, const T* __restrict gate, const T* __restrict up,
                                  const T* __restrict d_out, T* __restrict d_gate, T* __restrict d_up, int64_t count) {
  const GateKernel local = form;
  for (int64_t i = 0; i < count; ++i) {
    const GatedPair pair = gated_pair<kind, is_plain>(local, to_float(gate[i]), to_float(up[i]));
    const float g = to_float(d_out[i]);
    d_gate[i] = from_float<T>(g * pair.up * pair.slope);
    d_up[i] = from_float<T>(g * pair.by_up);
  }
}

template <SigmoidGate kind, bool is_plain, typename T>
BALLAST_INLINE void backward_pass_in_place(const GateKernel& form, const T* __restrict gate, const T* __restrict up,
                                           T* __restrict d_out, T* __restrict d_gate, T* __restrict d_up,
                                           int64_t count) {
  const GateKernel local = form;
  for (int64_t i = 0; i < count; ++i) {
    const GatedPair pair = gated_pair<kind, is_plain>(local, to_float(gate[i]), to_float(up[i]));
    const float g = to_float(d_out[i]);
    d_gate[i] = from_float<T>(g * pair.up * pair.slope);
    d_up[i] = from_float<T>(g * pair.by_up);
    d_out[i] = from_float<T>(pair.act * pair.up);
  }
}

constexpr int kSumLanes = 32;  // independent sums, so that additions need not wait for one another

template <SigmoidGate kind, bool is_plain, typename T>
BALLAST_INLINE float weighted_element(const GateKernel& form, float weight, T gate, T up, T& d_out, T& d_gate,
                                      T& d_up) {
  const GatedPair pair = gated_pair<kind, is_plain>(form, to_float(gate), to_float(up));
  const float g = to_float(d_out), weighted = weight * g, product = pair.act * pair.up;
  d_gate = from_float<T>(weighted * pair.up * pair.slope);
  d_up = from_float<T>(weighted * pair.by_up);
  d_out = from_float<T>(weight * product);
  return g * product;
}

template <SigmoidGate kind, bool is_plain, typename T>
BALLAST_INLINE float weighted_pass(const GateKernel& form, float weight, const T* __restrict gate,
                                   const T* __restrict up, T* __restrict d_out, T* __restrict d_gate,
                                   T* __restrict d_up, int64_t count) {
  const GateKernel local = form;
  float lanes[kSumLanes] = {};
  int64_t i = 0;
  for (; i + kSumLanes <= count; i += kSumLanes) {
    for (int lane = 0; lane < kSumLanes; ++lane) {
      const int64_t j = i + lane;
      lanes[lane] += weighted_element<kind, is_plain>(local, weight, gate[j], up[j], d_out[j], d_gate[j], d_up[j]);
    }
  }
  for (int lane = 0; i < count; ++i, ++lane) {
    lanes[lane] += weighted_element<kind, is_plain>(local, weight, gate[i], up[i], d_out[i], d_gate[i], d_up[i]);
  }
  double total = 0;
  for (const float lane : lanes) total += lane;
  return static_cast<float>(total);
}

}  // namespace

// One instance of a pass a kind of form, so that none pays for what it does not use.
#define BALLAST_BY_FORM(pass, ...)                                                           \
  if (form.is_plain()) {                                                                     \
    if (form.gate == SigmoidGate::kSilu) return pass<SigmoidGate::kSilu, true>(__VA_ARGS__); \
    return pass<SigmoidGate::kGeluTanh, true>(__VA_ARGS__);                                  \
  }                                                                                          \
  if (form.gate == SigmoidGate::kSilu) return pass<SigmoidGate::kSilu, false>(__VA_ARGS__);  \
  return pass<SigmoidGate::kGeluTanh, false>(__VA_ARGS__)

BALLAST_VECTOR_CLONES void gated_forward(const GateKernel& form, const float* gate, const float* up, float* out,
                                         int64_t count) {
  BALLAST_BY_FORM(forward_pass, form, gate, up, out, count);
}
BALLAST_VECTOR_CLONES void gated_forward(const GateKernel& form, const uint16_t* gate, const uint16_t* up,
                                         uint16_t* out, int64_t count) {
  BALLAST_BY_FORM(forward_pass, form, gate, up, out, count);
}

BALLAST_VECTOR_CLONES void gated_backward(const GateKernel& form, const float* gate, const float* up,
                                          const float* d_out, float* d_gate, float* d_up, int64_t count) {
  BALLAST_BY_FORM(backward_pass, form, gate, up, d_out, d_gate, d_up, count);
}
BALLAST_VECTOR_CLONES void gated_backward(const GateKernel& form, const uint16_t* gate, const uint16_t* up,
                                          const uint16_t* d_out, uint16_t* d_gate, uint16_t* d_up, int64_t count) {
  BALLAST_BY_FORM(backward_pass, form, gate, up, d_out, d_gate, d_up, count);
}

BALLAST_VECTOR_CLONES void gated_backward_in_place(const GateKernel& form, const float* gate, const float* up,
                                                   float* d_out, float* d_gate, float* d_up, int64_t count) {
  BALLAST_BY_FORM(backward_pass_in_place, form, gate, up, d_out, d_gate, d_up, count);
}
BALLAST_VECTOR_CLONES void gated_backward_in_place(const GateKernel& form, const uint16_t* gate, const uint16_t* up,
                                                   uint16_t* d_out, uint16_t* d_gate, uint16_t* d_up, int64_t count) {
  BALLAST_BY_FORM(backward_pass_in_place, form, gate, up, d_out, d_gate, d_up, count);
}

BALLAST_VECTOR_CLONES float gated_backward_weighted(const GateKernel& form, float weight, const float* gate,
                                                    const float* up, float* d_out, float* d_gate, float* d_up,
                                                    int64_t count) {
  BALLAST_BY_FORM(weighted_pass, form, weight, gate, up, d_out, d_gate, d_up, count);
}
BALLAST_VECTOR_CLONES float gated_backward_weighted(const GateKernel& form, float weight, const uint16_t* gate,
                                                    const uint16_t* up, uint16_t* d_out, uint16_t* d_gate,
                                                    uint16_t* d_up, int64_t count) {
  BALLAST_BY_FORM(weighted_pass, form, weight, gate, up, d_out, d_gate, d_up, count);
}

#undef BALLAST_BY_FORM

}  // namespace ballast
