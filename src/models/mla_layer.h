// SPDX-License-Identifier: Apache-2.0
// Multi-head latent attention with its projections.
#pragma once

#include "models/block.h"

namespace ballast {

/// self_attn.{q_proj | q_a_proj, q_a_layernorm, q_b_proj}, self_attn.{kv_a_proj_with_mqa, kv_a_layernorm, kv_b_proj,
/// o_proj}. Letters: H heads, K = N + R their width in q and k (the last R channels rotate), W that of v.
class MlaLayer final : public Mixer {
 public:
  MlaLayer(const MlaSpec& spec, int64_t emb_dim, UnitBuilder& builder);
  at::Tensor forward(const at::Tensor& x_BTD, const UnitWeights& weights, BlockContext& context) const override;

 private:
  /// What the residual stream is projected to: queries, or their latent; the latent of keys and values with the part
  /// of the key that rotates.
  BlockPass::Tensors read(const at::Tensor& x_BTD, const UnitWeights& weights, BlockContext& context) const;
  at::Tensor queries(const at::Tensor& first, const UnitWeights& weights, BlockContext& context) const;
  at::Tensor rotated(const at::Tensor& x_BTHK, const BatchContext& batch, int64_t first_channel) const;

  MlaSpec spec_;
  Slot q_ = -1, q_a_ = -1, q_b_ = -1, kv_a_ = -1, kv_b_ = -1, o_ = -1;
  Slot q_a_bias_ = -1, kv_a_bias_ = -1, o_bias_ = -1;
  Slot q_norm_ = -1, kv_norm_ = -1;
};

}  // namespace ballast
