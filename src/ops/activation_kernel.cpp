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
BALLAST_INLINE GateValue gate_value(float x) {
  float w = x, w_slope = 1.0F;
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

template <SigmoidGate kind, typename T>
BALLAST_INLINE void forward_pass(const T* __restrict gate, const T* __restrict up, T* __restrict out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = from_float<T>(gate_value<kind>(to_float(gate[i])).value * to_float(up[i]));
  }
}

template <SigmoidGate kind, typename T>
BALLAST_INLINE void backward_pass(const T* __restrict gate, const T* __restrict up, const T* __restrict d_out,
                                  T* __restrict d_gate, T* __restrict d_up, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const GateValue act = gate_value<kind>(to_float(gate[i]));
    const float g = to_float(d_out[i]);
    d_gate[i] = from_float<T>(g * to_float(up[i]) * act.slope);
    d_up[i] = from_float<T>(g * act.value);
  }
}

template <SigmoidGate kind, typename T>
BALLAST_INLINE void backward_pass_in_place(const T* __restrict gate, const T* __restrict up, T* __restrict d_out,
                                           T* __restrict d_gate, T* __restrict d_up, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const GateValue act = gate_value<kind>(to_float(gate[i]));
    const float g = to_float(d_out[i]), u = to_float(up[i]);
    d_gate[i] = from_float<T>(g * u * act.slope);
    d_up[i] = from_float<T>(g * act.value);
    d_out[i] = from_float<T>(act.value * u);
  }
}

}  // namespace

BALLAST_VECTOR_CLONES void gated_forward(SigmoidGate kind, const float* gate, const float* up, float* out,
                                         int64_t count) {
  if (kind == SigmoidGate::kSilu) return forward_pass<SigmoidGate::kSilu>(gate, up, out, count);
  forward_pass<SigmoidGate::kGeluTanh>(gate, up, out, count);
}
BALLAST_VECTOR_CLONES void gated_forward(SigmoidGate kind, const uint16_t* gate, const uint16_t* up, uint16_t* out,
                                         int64_t count) {
  if (kind == SigmoidGate::kSilu) return forward_pass<SigmoidGate::kSilu>(gate, up, out, count);
  forward_pass<SigmoidGate::kGeluTanh>(gate, up, out, count);
}

BALLAST_VECTOR_CLONES void gated_backward(SigmoidGate kind, const float* gate, const float* up, const float* d_out,
                                          float* d_gate, float* d_up, int64_t count) {
  if (kind == SigmoidGate::kSilu) return backward_pass<SigmoidGate::kSilu>(gate, up, d_out, d_gate, d_up, count);
  backward_pass<SigmoidGate::kGeluTanh>(gate, up, d_out, d_gate, d_up, count);
}
BALLAST_VECTOR_CLONES void gated_backward(SigmoidGate kind, const uint16_t* gate, const uint16_t* up,
                                          const uint16_t* d_out, uint16_t* d_gate, uint16_t* d_up, int64_t count) {
  if (kind == SigmoidGate::kSilu) return backward_pass<SigmoidGate::kSilu>(gate, up, d_out, d_gate, d_up, count);
  backward_pass<SigmoidGate::kGeluTanh>(gate, up, d_out, d_gate, d_up, count);
}

BALLAST_VECTOR_CLONES void gated_backward_in_place(SigmoidGate kind, const float* gate, const float* up, float* d_out,
                                                   float* d_gate, float* d_up, int64_t count) {
  if (kind == SigmoidGate::kSilu) {
    return backward_pass_in_place<SigmoidGate::kSilu>(gate, up, d_out, d_gate, d_up, count);
  }
  backward_pass_in_place<SigmoidGate::kGeluTanh>(gate, up, d_out, d_gate, d_up, count);
}
BALLAST_VECTOR_CLONES void gated_backward_in_place(SigmoidGate kind, const uint16_t* gate, const uint16_t* up,
                                                   uint16_t* d_out, uint16_t* d_gate, uint16_t* d_up, int64_t count) {
  if (kind == SigmoidGate::kSilu) {
    return backward_pass_in_place<SigmoidGate::kSilu>(gate, up, d_out, d_gate, d_up, count);
  }
  backward_pass_in_place<SigmoidGate::kGeluTanh>(gate, up, d_out, d_gate, d_up, count);
}

}  // namespace ballast
