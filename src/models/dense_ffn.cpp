// SPDX-License-Identifier: Apache-2.0
#include "models/dense_ffn.h"

#include "ops/activation.h"
#include "ops/linear.h"

namespace ballast {

DenseFfn::DenseFfn(const DenseFfnSpec& spec, int64_t emb_dim, UnitBuilder& builder, const std::string& module)
    : spec_(spec) {
  if (spec.is_gated) gate_ = builder.matrix(module + ".gate_proj", spec.mlp_dim, emb_dim);
  up_ = builder.matrix(module + ".up_proj", spec.mlp_dim, emb_dim);
  down_ = builder.matrix(module + ".down_proj", emb_dim, spec.mlp_dim);
  gate_bias_ = builder.bias(module + ".gate_proj", spec.mlp_dim, spec.has_bias && spec.is_gated);
  up_bias_ = builder.bias(module + ".up_proj", spec.mlp_dim, spec.has_bias);
  down_bias_ = builder.bias(module + ".down_proj", emb_dim, spec.has_bias);
}

at::Tensor DenseFfn::forward(const at::Tensor& x_BTD, const UnitWeights& weights, BlockContext& context) const {
  const at::Tensor down = weight_at(weights, down_), down_bias = weight_at(weights, down_bias_);
  const Projection up{weight_at(weights, up_), weight_at(weights, up_bias_)};
  if (!spec_.is_gated) {
    const at::Tensor inner_BTF = context.pass.named(
        {NamedTensor::kMlpwi}, [&](const auto& given) { return linear_group(x_BTD, {up}, given); })[0];
    return context.output(NamedTensor::kMlpwo, x_BTD, [&](const auto& given) -> BlockPass::Tensors {
      return {linear(activation(inner_BTF, spec_.activation), down, down_bias, given)};
    });
  }
  const Projection gate{weight_at(weights, gate_), weight_at(weights, gate_bias_)};
  const auto inner_BTF = context.pass.named({NamedTensor::kMlpwi0, NamedTensor::kMlpwi1},
                                            [&](const auto& given) { return linear_group(x_BTD, {gate, up}, given); });
  return context.output(NamedTensor::kMlpwo, x_BTD, [&](const auto& given) -> BlockPass::Tensors {
    return {gated_linear(inner_BTF[0], inner_BTF[1], spec_.activation, down, down_bias, given, spec_.activation_limit)};
  });
}

}  // namespace ballast
