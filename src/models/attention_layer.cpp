// SPDX-License-Identifier: Apache-2.0
#include "models/attention_layer.h"

#include "ops/attention.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"

namespace ballast {

AttentionLayer::AttentionLayer(const AttentionSpec& spec, int64_t emb_dim, UnitBuilder& builder) : spec_(spec) {
  const int64_t query_width = spec.num_query_heads * spec.head_dim;
  const int64_t key_width = spec.num_kv_heads * spec.head_dim;
  const int64_t value_width = spec.num_kv_heads * spec.value_head_dim;
  q_ = builder.matrix("self_attn.q_proj", query_width, emb_dim);
  k_ = builder.matrix("self_attn.k_proj", key_width, emb_dim);
  v_ = builder.matrix("self_attn.v_proj", value_width, emb_dim);
  o_ = builder.matrix("self_attn.o_proj", emb_dim, spec.num_query_heads * spec.value_head_dim);
  q_bias_ = builder.bias("self_attn.q_proj", query_width, spec.has_qkv_bias);
  k_bias_ = builder.bias("self_attn.k_proj", key_width, spec.has_qkv_bias);
  v_bias_ = builder.bias("self_attn.v_proj", value_width, spec.has_qkv_bias);
  o_bias_ = builder.bias("self_attn.o_proj", emb_dim, spec.has_output_bias);
  const bool is_per_head = spec.qk_norm == QkNormKind::kPerHead;
  q_norm_ = builder.norm(spec.q_norm, is_per_head ? spec.head_dim : query_width, "self_attn.");
  k_norm_ = builder.norm(spec.k_norm, is_per_head ? spec.head_dim : key_width, "self_attn.");
  if (spec.has_sinks) sinks_ = builder.add("self_attn.sinks", {spec.num_query_heads}, Initializer::kZeros);
}

at::Tensor AttentionLayer::rotated_heads(const at::Tensor& projected_BTD, const UnitWeights& weights, Slot norm,
                                         const NormSpec& norm_spec, const BatchContext& batch) const {
  at::Tensor x_BTHK = projected_BTD.unflatten(2, {-1, spec_.head_dim});
  if (spec_.qk_norm == QkNormKind::kPerHead) {
    x_BTHK = rms_norm(x_BTHK, weight_at(weights, norm), norm_spec.form, norm_spec.epsilon);
  } else if (spec_.qk_norm == QkNormKind::kWholeProjection) {
    x_BTHK = rms_norm(x_BTHK.flatten(2), weight_at(weights, norm), norm_spec.form, norm_spec.epsilon).view_as(x_BTHK);
  }
  if (spec_.rope < 0) return x_BTHK;
  const BatchRope& rope = batch.ropes[static_cast<size_t>(spec_.rope)];
  return apply_rope(x_BTHK, rope.table, rope.spec);
}

at::Tensor AttentionLayer::forward(const at::Tensor& x_BTD, const UnitWeights& weights, BlockContext& context) const {
  const BatchContext& batch = context.batch;
  const auto projection = [&](Slot matrix, Slot bias) {
    return Projection{weight_at(weights, matrix), weight_at(weights, bias)};
  };
  const auto projected = context.pass.named(
      {NamedTensor::kQueryProj, NamedTensor::kKeyProj, NamedTensor::kValueProj}, [&](const auto& given) {
        return linear_group(x_BTD, {projection(q_, q_bias_), projection(k_, k_bias_), projection(v_, v_bias_)}, given);
      });
  const at::Tensor q_BTHK = rotated_heads(projected[0], weights, q_norm_, spec_.q_norm, batch);
  const at::Tensor k_BTGK = rotated_heads(projected[1], weights, k_norm_, spec_.k_norm, batch);
  const at::Tensor v_BTGW = projected[2].unflatten(2, {spec_.num_kv_heads, spec_.value_head_dim});
  // Its backward reads the output and the softmax's denominators: one name for both.
  const auto mixed =
      context.pass.named({NamedTensor::kContext, NamedTensor::kContext}, [&](const auto& given) -> BlockPass::Tensors {
        const AttentionForward known = given.empty() ? AttentionForward{} : AttentionForward{given[0], given[1]};
        const auto [out_BTHW, lse_BTH] = attention_forward(
            {q_BTHK, k_BTGK, v_BTGW}, batch.plans.at(spec_.sliding_window),
            {.scale = spec_.scale, .soft_cap = spec_.logits_soft_cap}, weight_at(weights, sinks_), known);
        return {out_BTHW, lse_BTH};
      });
  return context.output(NamedTensor::kOutProj, x_BTD, [&](const auto& given) -> BlockPass::Tensors {
    return {linear(mixed[0].flatten(2), weight_at(weights, o_), weight_at(weights, o_bias_), given)};
  });
}

}  // namespace ballast
