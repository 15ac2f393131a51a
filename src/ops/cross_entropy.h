// SPDX-License-Identifier: Apache-2.0
// Output projection, cross-entropy and z-loss as one operation that never holds more logits than one tile of tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ballast {

struct CrossEntropyOptions {
  double z_loss_multiplier = 0;    ///< c in z = c * logZ^2
  double soft_cap = 0;             ///< logits become cap * tanh(logits / cap); 0: off
  double logits_scale = 1;         ///< multiplies the logits, before the soft cap
  int64_t num_vocab_tiling = 1;    ///< number n of token tiles of equal extent, the last may be shorter
  bool seq_major = false;          ///< tile t = all rows x positions [t T/n, (t+1) T/n) instead of tokens [t N/n, ...)
  int64_t rows = 1, length = 0;    ///< B and T of the N = B*T tokens; read by seq_major only
  int64_t max_tile_tokens = 1024;  ///< upper bound of tokens whose logits exist at once
};

struct CrossEntropyResult {
  at::Tensor loss;  ///< scalar, sum over n of weight_n * (ce_n + z_n); carries the gradient
  at::Tensor ce_N;  ///< logZ - logit of the target; no gradient; 0 where weight is 0
  at::Tensor z_N;   ///< c * logZ^2; no gradient; 0 where weight is 0
};

/// Loss whose weights are known beforehand. Where a gradient is wanted, those of hidden and head are formed in the
/// forward pass, and backward multiplies both by its cotangent; otherwise the forward pass alone runs.
///
/// Logits, softmax and sums are fp32 (fp64 for fp64 input), products run in the wider type of hidden and head (bf16
/// with bf16 only where the processor has such products), the gradient of head is summed in fp32. A token of weight 0
/// is left out altogether: its hidden state and target may hold anything. The values do not depend on the tiling
/// beyond the order of summation.
///
/// @param hidden_ND  final hidden states
/// @param head_VD    output projection
/// @param target_N   int64 in [0, V) where weight is not 0
/// @param weight_N   floating
/// @throws NumericError if a counted target is outside [0, V), ShapeError if shapes disagree
/// @source docs/losses.md
CrossEntropyResult fused_cross_entropy(const at::Tensor& hidden_ND, const at::Tensor& head_VD,
                                       const at::Tensor& target_N, const at::Tensor& weight_N,
                                       const CrossEntropyOptions& options);

/// Log-probability of every target, for losses whose weights depend on the values (preference losses). Backward takes
/// a cotangent a token and computes each tile's logits again. z_loss_multiplier is not read.
///
/// @param target_N  int64 below V; negative: not counted, the value is 0 and no gradient flows
/// @return          [N] fp32 (fp64 for fp64 input)
at::Tensor token_log_probs(const at::Tensor& hidden_ND, const at::Tensor& head_VD, const at::Tensor& target_N,
                           const CrossEntropyOptions& options);

}  // namespace ballast
