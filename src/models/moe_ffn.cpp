// SPDX-License-Identifier: Apache-2.0
#include "models/moe_ffn.h"

#include "ops/expert_ffn.h"
#include "ops/linear.h"

namespace ballast {

MoeFfn::MoeFfn(const MoeFfnSpec& spec, const DecoderSpec& decoder, UnitBuilder& builder)
    : spec_(spec), router_(spec.router, decoder.moe, count_moe_layers(decoder), decoder.emb_dim, builder) {
  const int64_t experts = spec.router.num_experts, emb_dim = decoder.emb_dim;
  const int64_t width = spec.latent_dim > 0 ? spec.latent_dim : emb_dim;
  if (spec.latent_dim > 0) {
    latent_down_ = builder.matrix("mlp.latent_down_proj", spec.latent_dim, emb_dim);
    latent_up_ = builder.matrix("mlp.latent_up_proj", emb_dim, spec.latent_dim);
  }
  const auto matrices = [&](const std::string& name, int64_t out, int64_t in) {
    // MaxText takes the expert axis for the inputs: variance 1/(E out) in place of 1/in.
    const double scale = static_cast<double>(in) / static_cast<double>(experts * out);
    return builder.add("mlp.experts." + name + ".weight", {experts, out, in}, Initializer::kFanInTruncated,
                       decoder.moe.has_maxtext_init ? scale : 1.0);
  };
  const auto biases = [&](const std::string& name, int64_t out) {
    return spec.has_bias ? builder.add("mlp.experts." + name + ".bias", {experts, out}, Initializer::kZeros) : -1;
  };
  gate_ = matrices("gate_proj", spec.mlp_dim, width);
  up_ = matrices("up_proj", spec.mlp_dim, width);
  down_ = matrices("down_proj", width, spec.mlp_dim);
  gate_bias_ = biases("gate_proj", spec.mlp_dim);
  up_bias_ = biases("up_proj", spec.mlp_dim);
  down_bias_ = biases("down_proj", width);
  if (spec.shared_dim == 0) return;
  const DenseFfnSpec shared{
      .mlp_dim = spec.shared_dim, .activation = spec.activation, .activation_limit = spec.activation_limit};
  shared_.emplace(shared, emb_dim, builder, "mlp.shared_experts");
  if (spec.has_shared_gate) shared_gate_ = builder.matrix("mlp.shared_expert_gate", 1, emb_dim);
}

at::Tensor MoeFfn::routed(const at::Tensor& x_ND, const UnitWeights& weights, BlockContext& context) const {
  const Routing routing = router_.route(x_ND, weights, context);
  const ExpertPlan plan = plan_experts(routing.expert_NK, spec_.router.num_experts);
  const ExpertWeights experts{.gate_EFD = weight_at(weights, gate_),
                              .up_EFD = weight_at(weights, up_),
                              .down_EDF = weight_at(weights, down_),
                              .gate_bias_EF = weight_at(weights, gate_bias_),
                              .up_bias_EF = weight_at(weights, up_bias_),
                              .down_bias_ED = weight_at(weights, down_bias_)};
  const ExpertForm form{.activation = spec_.activation,
                        .limit = spec_.activation_limit,
                        .alpha = spec_.activation_alpha,
                        .up_offset = spec_.up_offset};
  const bool has_latent = latent_down_ >= 0;
  const at::Tensor input = has_latent ? linear(x_ND, weight_at(weights, latent_down_), at::Tensor()) : x_ND;
  const std::vector<NamedTensor> names = {NamedTensor::kMoeMlpwi0, NamedTensor::kMoeMlpwi1, NamedTensor::kMoeMlpwo};
  const auto make = [&](const auto& given) -> BlockPass::Tensors {
    const ExpertOutputs known = given.empty() ? ExpertOutputs() : ExpertOutputs{given[0], given[1], given[2]};
    const ExpertOutputs outputs = expert_ffn(input, routing.weight_NK, plan, experts, form, known);
    return {outputs.gate_RF, outputs.up_RF, outputs.y_ND};
  };
  const bool is_output_read = context.is_output_read;
  context.is_output_read = is_output_read || has_latent;
  const at::Tensor y = context.outputs(names, input, make).back();
  context.is_output_read = is_output_read;
  if (!has_latent) return y;
  return context.output(NamedTensor::kMoeMlpwo, x_ND, [&](const auto& given) -> BlockPass::Tensors {
    return {linear(y, weight_at(weights, latent_up_), at::Tensor(), given)};
  });
}

at::Tensor MoeFfn::forward(const at::Tensor& x_BTD, const UnitWeights& weights, BlockContext& context) const {
  const bool is_output_read = context.is_output_read;
  const at::Tensor y = routed(x_BTD.flatten(0, 1), weights, context).view_as(x_BTD);
  if (!shared_) return y;
  context.is_output_read = is_output_read || shared_gate_ >= 0;
  const at::Tensor shared = shared_->forward(x_BTD, weights, context);
  context.is_output_read = is_output_read;
  if (shared_gate_ < 0) return y + shared;
  return y + at::sigmoid(linear(x_BTD, weight_at(weights, shared_gate_), at::Tensor())) * shared;
}

}  // namespace ballast
