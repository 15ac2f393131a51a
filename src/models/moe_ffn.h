// SPDX-License-Identifier: Apache-2.0
// Feed-forward layer of routed experts, with what every token passes beside them.
#pragma once

#include <optional>

#include "models/block.h"
#include "models/dense_ffn.h"
#include "models/router.h"

namespace ballast {

/// mlp.experts.{gate,up,down}_proj.weight [E, out, in], mlp.gate, mlp.shared_experts, mlp.latent_{down,up}_proj:
/// up_to_model(sum over the chosen of weight * expert(down_to_latent(x))) + shared_gate(x) * shared(x).
class MoeFfn final : public Ffn {
 public:
  MoeFfn(const MoeFfnSpec& spec, const DecoderSpec& decoder, UnitBuilder& builder);
  at::Tensor forward(const at::Tensor& x_BTD, const UnitWeights& weights, BlockContext& context) const override;
  std::vector<LayerStatKind> term_kinds() const override { return router_.term_kinds(); }
  Slot selection_bias() const override { return router_.selection_bias(); }

 private:
  at::Tensor routed(const at::Tensor& x_ND, const UnitWeights& weights, BlockContext& context) const;

  MoeFfnSpec spec_;
  Router router_;
  std::optional<DenseFfn> shared_;
  Slot gate_ = -1, up_ = -1, down_ = -1;
  Slot gate_bias_ = -1, up_bias_ = -1, down_bias_ = -1;
  Slot latent_down_ = -1, latent_up_ = -1;
  Slot shared_gate_ = -1;
};

}  // namespace ballast
