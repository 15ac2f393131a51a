// SPDX-License-Identifier: Apache-2.0
#include "models/mla_layer.h"

#include "ops/attention.h"
#include "ops/latent_heads.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"

namespace ballast {

MlaLayer::MlaLayer(const MlaSpec& spec, int64_t emb_dim, UnitBuilder& builder) : spec_(spec) {
  const int64_t query_width = spec.num_heads * spec.head_dim();
  if (spec.q_rank > 0) {
    q_a_ = builder.matrix("self_attn.q_a_proj", spec.q_rank, emb_dim);
    q_a_bias_ = builder.bias("self_attn.q_a_proj", spec.q_rank, spec.has_bias);
    q_norm_ = builder.norm(spec.q_norm, spec.q_rank, "self_attn.");
    q_b_ = builder.matrix("self_attn.q_b_proj", query_width, spec.q_rank);
  } else {
    q_ = builder.matrix("self_attn.q_proj", query_width, emb_dim);
  }
  kv_a_ = builder.matrix("self_attn.kv_a_proj_with_mqa", spec.kv_rank + spec.rope_dim, emb_dim);
  kv_a_bias_ = builder.bias("self_attn.kv_a_proj_with_mqa", spec.kv_rank + spec.rope_dim, spec.has_bias);
  kv_norm_ = builder.norm(spec.kv_norm, spec.kv_rank, "self_attn.");
  kv_b_ = builder.matrix("self_attn.kv_b_proj", spec.num_heads * (spec.nope_dim + spec.value_head_dim), spec.kv_rank);
  o_ = builder.matrix("self_attn.o_proj", emb_dim, spec.num_heads * spec.value_head_dim);
  o_bias_ = builder.bias("self_attn.o_proj", emb_dim, spec.has_bias);
}

BlockPass::Tensors MlaLayer::read(const at::Tensor& x_BTD, const UnitWeights& weights, BlockContext& context) const {
  const bool has_latent = spec_.q_rank > 0;
  const Projection first{weight_at(weights, has_latent ? q_a_ : q_), weight_at(weights, q_a_bias_)};
  const Projection kv{weight_at(weights, kv_a_), weight_at(weights, kv_a_bias_)};
  const NamedTensor name = has_latent ? NamedTensor::kQueryWaProj : NamedTensor::kQueryProj;
  return context.pass.named({name, NamedTensor::kKvWaProj},
                            [&](const auto& given) { return linear_group(x_BTD, {first, kv}, given); });
}

at::Tensor MlaLayer::queries(const at::Tensor& first, const UnitWeights& weights, BlockContext& context) const {
  if (spec_.q_rank == 0) return first;
  const at::Tensor latent = rms_norm(first, weight_at(weights, q_norm_), spec_.q_norm.form, spec_.q_norm.epsilon);
  return context.pass.named({NamedTensor::kQueryProj}, [&](const auto& given) -> BlockPass::Tensors {
    return {linear(latent, weight_at(weights, q_b_), at::Tensor(), given)};
  })[0];
}

at::Tensor MlaLayer::rotated(const at::Tensor& x_BTHK, const BatchContext& batch, int64_t first_channel) const {
  if (spec_.rope < 0) return x_BTHK;
  const BatchRope& rope = batch.ropes[static_cast<size_t>(spec_.rope)];
  return apply_rope(x_BTHK, rope.table, rope.spec, first_channel);
}

at::Tensor MlaLayer::forward(const at::Tensor& x_BTD, const UnitWeights& weights, BlockContext& context) const {
  const BatchContext& batch = context.batch;
  const BlockPass::Tensors read_BT = read(x_BTD, weights, context);
  const at::Tensor q_BTHK = rotated(queries(read_BT[0], weights, context).unflatten(2, {spec_.num_heads, -1}), batch,
                                    /*first_channel=*/spec_.nope_dim);
  const at::Tensor shared_BT1R = rotated(read_BT[1].narrow(2, spec_.kv_rank, spec_.rope_dim).unsqueeze(2), batch, 0);
  const at::Tensor latent = rms_norm(read_BT[1].narrow(2, 0, spec_.kv_rank), weight_at(weights, kv_norm_),
                                     spec_.kv_norm.form, spec_.kv_norm.epsilon);
  const auto kv = context.pass.named({NamedTensor::kKeyValueProj}, [&](const auto& given) -> BlockPass::Tensors {
    return {linear(latent, weight_at(weights, kv_b_), at::Tensor(), given)};
  });
  const auto [k_BTHK, v_BTHW] = latent_heads(kv[0].unflatten(2, {spec_.num_heads, -1}), shared_BT1R, spec_.nope_dim);
  const AttentionOperands operands{q_BTHK, k_BTHK, v_BTHW};
  // Its backward reads the output and the softmax's denominators: one name for both.
  const auto mixed =
      context.pass.named({NamedTensor::kContext, NamedTensor::kContext}, [&](const auto& given) -> BlockPass::Tensors {
        const AttentionForward known = given.empty() ? AttentionForward{} : AttentionForward{given[0], given[1]};
        const auto [out_BTHW, lse_BTH] =
            attention_forward(operands, batch.plans.at(0), {.scale = spec_.scale}, at::Tensor(), known);
        return {out_BTHW, lse_BTH};
      });
  return context.output(NamedTensor::kOutProj, x_BTD, [&](const auto& given) -> BlockPass::Tensors {
    return {linear(mixed[0].flatten(2), weight_at(weights, o_), weight_at(weights, o_bias_), given)};
  });
}

}  // namespace ballast
