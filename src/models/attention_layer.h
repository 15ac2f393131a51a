// SPDX-License-Identifier: Apache-2.0
// Grouped-query softmax attention with its projections.
#pragma once

#include "models/block.h"

namespace ballast {

/// self_attn.{q,k,v,o}_proj, self_attn.{q,k}_norm. Letters: H query heads, G key/value heads, K head width.
class AttentionLayer final : public Mixer {
 public:
  AttentionLayer(const AttentionSpec& spec, int64_t emb_dim, UnitBuilder& builder);
  at::Tensor forward(const at::Tensor& x_BTD, const UnitWeights& weights, BlockContext& context) const override;

 private:
  /// q or k from its projection [B, T, heads * K]: heads, norm, rotation.
  at::Tensor rotated_heads(const at::Tensor& projected_BTD, const UnitWeights& weights, Slot norm,
                           const NormSpec& norm_spec, const BatchContext& batch) const;

  AttentionSpec spec_;
  Slot q_ = -1, k_ = -1, v_ = -1, o_ = -1;
  Slot q_bias_ = -1, k_bias_ = -1, v_bias_ = -1, o_bias_ = -1;
  Slot q_norm_ = -1, k_norm_ = -1;
  Slot sinks_ = -1;
};

}  // namespace ballast
