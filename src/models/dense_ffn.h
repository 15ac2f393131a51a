// SPDX-License-Identifier: Apache-2.0
// Dense feed-forward layer, gated or not.
#pragma once

#include "models/block.h"

namespace ballast {

/// <module>.{gate,up,down}_proj: down(act(gate(x)) * up(x)), without a gate down(act(up(x))). Gate and up may be
/// clipped first.
class DenseFfn final : public Ffn {
 public:
  DenseFfn(const DenseFfnSpec& spec, int64_t emb_dim, UnitBuilder& builder, const std::string& module = "mlp");
  at::Tensor forward(const at::Tensor& x_BTD, const UnitWeights& weights, BlockContext& context) const override;

 private:
  DenseFfnSpec spec_;
  Slot gate_ = -1, up_ = -1, down_ = -1;
  Slot gate_bias_ = -1, up_bias_ = -1, down_bias_ = -1;
};

}  // namespace ballast
