// SPDX-License-Identifier: Apache-2.0
// The gated product of activation.h on the CPU, one pass a direction; fp32, or bf16 as bits with fp32 inside.
#pragma once

#include <cstdint>

namespace ballast {

/// Activations of the form x * sigmoid(w(x)): SiLU has w = x, GELU's tanh form w = 2 sqrt(2/pi) (x + 0.044715 x^3).
enum class SigmoidGate { kSilu, kGeluTanh };

/// out = act(gate) * up for `count` elements.
void gated_forward(SigmoidGate kind, const float* gate, const float* up, float* out, int64_t count);
void gated_forward(SigmoidGate kind, const uint16_t* gate, const uint16_t* up, uint16_t* out, int64_t count);

/// d_gate = d_out * up * act'(gate), d_up = d_out * act(gate).
void gated_backward(SigmoidGate kind, const float* gate, const float* up, const float* d_out, float* d_gate,
                    float* d_up, int64_t count);
void gated_backward(SigmoidGate kind, const uint16_t* gate, const uint16_t* up, const uint16_t* d_out, uint16_t* d_gate,
                    uint16_t* d_up, int64_t count);

/// The same, and d_out is overwritten by act(gate) * up.
void gated_backward_in_place(SigmoidGate kind, const float* gate, const float* up, float* d_out, float* d_gate,
                             float* d_up, int64_t count);
void gated_backward_in_place(SigmoidGate kind, const uint16_t* gate, const uint16_t* up, uint16_t* d_out,
                             uint16_t* d_gate, uint16_t* d_up, int64_t count);

}  // namespace ballast
