// SPDX-License-Identifier: Apache-2.0
// The gated product of activation.h on the CPU, one pass a direction; fp32, or bf16 as bits with fp32 inside.
#pragma once

#include <cstdint>
#include <limits>

namespace ballast {

/// Activations of the form x * sigmoid(w(x)): SiLU has w = alpha x, GELU's tanh form w = 2 sqrt(2/pi) (x + 0.044715
/// x^3).
enum class SigmoidGate { kSilu, kGeluTanh };

/// product = act(min(gate, limit)) * (clip(up, -limit, limit) + up_offset). A gradient passes where the value lies on
/// the limit.
struct GateKernel {
  SigmoidGate gate = SigmoidGate::kSilu;
  float limit = std::numeric_limits<float>::infinity();
  float alpha = 1;  ///< of SiLU
  float up_offset = 0;

  /// act(gate) * up.
  bool is_plain() const { return limit == std::numeric_limits<float>::infinity() && alpha == 1 && up_offset == 0; }
};

/// out = product for `count` elements.
void gated_forward(const GateKernel& form, const float* gate, const float* up, float* out, int64_t count);
void gated_forward(const GateKernel& form, const uint16_t* gate, const uint16_t* up, uint16_t* out, int64_t count);

/// d_gate and d_up = d_out times the product's derivatives.
void gated_backward(const GateKernel& form, const float* gate, const float* up, const float* d_out, float* d_gate,
                    float* d_up, int64_t count);
void gated_backward(const GateKernel& form, const uint16_t* gate, const uint16_t* up, const uint16_t* d_out,
                    uint16_t* d_gate, uint16_t* d_up, int64_t count);

/// The same, and d_out is overwritten by the product.
void gated_backward_in_place(const GateKernel& form, const float* gate, const float* up, float* d_out, float* d_gate,
                             float* d_up, int64_t count);
void gated_backward_in_place(const GateKernel& form, const uint16_t* gate, const uint16_t* up, uint16_t* d_out,
                             uint16_t* d_gate, uint16_t* d_up, int64_t count);

/// The gradients where `weight` multiplies the product: d_out comes without the weight and is overwritten by weight *
/// product. Returns the weight's gradient, sum d_out * product.
float gated_backward_weighted(const GateKernel& form, float weight, const float* gate, const float* up, float* d_out,
                              float* d_gate, float* d_up, int64_t count);
float gated_backward_weighted(const GateKernel& form, float weight, const uint16_t* gate, const uint16_t* up,
                              uint16_t* d_out, uint16_t* d_gate, uint16_t* d_up, int64_t count);

}  // namespace ballast
