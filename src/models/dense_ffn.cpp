// SPDX-License-Identifier: Apache-2.0
#include "models/dense_ffn.h"

#include "ops/activation.h"
#include "ops/linear.h"

namespace ballast {

DenseFfn::DenseFfn(const DenseFfnSpec& spec, int64_t emb_dim, UnitBuilder& builder) : spec_(spec) {
  if (spec.is_gated) gate_ = builder.matrix("mlp.gate_proj", spec.mlp_dim, emb_dim);
  up_ = builder.matrix("mlp.up_proj", spec.mlp_dim, emb_dim);
  down_ = builder.matrix("mlp.down_proj", emb_dim, spec.mlp_dim);
  gate_bias_ = builder.bias("mlp.gate_proj", spec.mlp_dim, spec.has_bias && spec.is_gated);
  up_bias_ = builder.bias("mlp.up_proj", spec.mlp_dim, spec.has_bias);
  down_bias_ = builder.bias("mlp.down_proj", emb_dim, spec.has_bias);
}

at::Tensor DenseFfn::forward(const at::Tensor& x_BTD, const UnitWeights& weights, BlockContext&) const {
  const at::Tensor down = weight_at(weights, down_), down_bias = weight_at(weights, down_bias_);
  const Projection up{weight_at(weights, up_), weight_at(weights, up_bias_)};
  if (!spec_.is_gated) {
    return linear(activation(linear(x_BTD, up.weight, up.bias), spec_.activation), down, down_bias);
  }
  const auto inner_BTF = linear_group(x_BTD, {{weight_at(weights, gate_), weight_at(weights, gate_bias_)}, up});
  return gated_linear(inner_BTF[0], inner_BTF[1], spec_.activation, down, down_bias);
}

}  // namespace ballast
