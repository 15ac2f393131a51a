// SPDX-License-Identifier: Apache-2.0
#include "ops/attention.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/arguments.h"
#include "ops/attention_kinds.h"

namespace ballast {
namespace {

/// What backward needs beyond tensors.
struct AttentionCall : torch::CustomClassHolder {
  AttentionKind kind = AttentionKind::kFlash;
  std::shared_ptr<const AttentionPlan> plan;
  AttentionOptions options;
};

AttentionOperands cast_operands(const AttentionOperands& operands, at::ScalarType type) {
  return {operands.q_BTHK.to(type), operands.k_BTGK.to(type), operands.v_BTGW.to(type)};
}

AttentionForward run_forward(const AttentionCall& call, const AttentionOperands& operands) {
  const at::ScalarType given = operands.q_BTHK.scalar_type(), wide = at::toOpMathType(given);
  const double scale = call.options.scale;
  if (call.kind == AttentionKind::kBlocks) {
    return blocks_forward(cast_operands(operands, wide), *call.plan, scale, call.options.soft_cap);
  }
  return flash_forward(cast_operands(operands, call.options.computes_in_fp32 ? wide : given), *call.plan, scale);
}

/// Always wide: the kernel's backward in bf16 is no faster even where products of bf16 are, and far slower on short
/// documents.
AttentionOperands run_backward(const AttentionCall& call, const AttentionOperands& operands,
                               const AttentionForward& result, const at::Tensor& d_out) {
  const AttentionOperands wide = cast_operands(operands, result.lse_BTH.scalar_type());
  const double scale = call.options.scale;
  if (call.kind == AttentionKind::kBlocks) {
    return blocks_backward(wide, result, d_out, *call.plan, scale, call.options.soft_cap);
  }
  return flash_backward(wide, result, d_out, *call.plan, scale);
}

struct AttentionFunction : torch::autograd::Function<AttentionFunction> {
  /// Output and lse; the latter has no gradient.
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const at::Tensor& q,
                                                const at::Tensor& k, const at::Tensor& v,
                                                const std::optional<at::Tensor>& given_sinks,
                                                const c10::intrusive_ptr<AttentionCall>& call,
                                                const AttentionForward& given) {
    const at::Tensor sinks = given_sinks.value_or(at::Tensor());
    AttentionForward result;
    if (given.out_BTHW.defined() && given.lse_BTH.defined()) {
      result = {fresh_handle(given.out_BTHW), fresh_handle(given.lse_BTH)};
    } else {
      result = run_forward(*call, {q, k, v});
      if (sinks.defined()) add_sinks(result, sinks);
      result.out_BTHW = result.out_BTHW.to(q.scalar_type());
    }
    context->save_for_backward({q, k, v, sinks, result.out_BTHW, result.lse_BTH});
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    context->mark_non_differentiable({result.lse_BTH});
    context->set_materialize_grads(false);
    return {result.out_BTHW, result.lse_BTH};
  }

  /// softmax with a sink = softmax * sigmoid(lse - sink); its denominator takes the sink in.
  static void add_sinks(AttentionForward& result, const at::Tensor& sinks) {
    const at::Tensor with_sink = at::logaddexp(result.lse_BTH, sinks.to(result.lse_BTH.scalar_type()));
    const at::Tensor share = at::exp(result.lse_BTH - with_sink).unsqueeze(-1);
    result = {result.out_BTHW * share, with_sink};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &sinks = saved[3], &lse = saved[5];
    const auto call = c10::static_intrusive_pointer_cast<AttentionCall>(context->saved_data["call"].toCapsule());
    const at::ScalarType wide = lse.scalar_type(), given = q.scalar_type();
    const at::Tensor out = saved[4].to(wide), d_out = gradients[0].to(wide).contiguous();
    at::Tensor d_sinks;
    if (sinks.defined()) {
      // The sink has probability exp(sink - lse) and no value: its score's gradient is -probability * (d_out . out).
      const at::Tensor probability = at::exp(sinks.to(wide) - lse);
      d_sinks = (probability * (d_out * out).sum(-1)).sum(at::IntArrayRef({0, 1})).neg_().to(sinks.scalar_type());
    }
    const AttentionOperands d = run_backward(*call, {q, saved[1], saved[2]}, {out, lse}, d_out);
    return {d.q_BTHK.to(given), d.k_BTGK.to(given), d.v_BTGW.to(given), d_sinks, at::Tensor(), at::Tensor()};
  }
};

/// One call that sees the whole batch. A padding query sees itself, so that its row of the softmax exists; its output
/// is then set to 0, which also stops its gradient.
at::Tensor masked_attention(const at::Tensor& q_BTHK, const at::Tensor& k_BTGK, const at::Tensor& v_BTGW,
                            const AttentionPlan& plan, double scale) {
  const bool is_grouped = q_BTHK.size(2) != k_BTGK.size(2);
  const at::Tensor q = q_BTHK.transpose(1, 2), k = k_BTGK.transpose(1, 2), v = v_BTGW.transpose(1, 2);
  if (plan.is_whole_batch_causal) {
    return at::scaled_dot_product_attention(q, k, v, {}, 0.0, true, scale, is_grouped).transpose(1, 2).contiguous();
  }
  const at::TensorOptions bools = q.options().dtype(at::kBool);
  at::Tensor mask_BTT = at::zeros({plan.rows, plan.length, plan.length}, bools);
  at::Tensor counted_BT = at::zeros({plan.rows, plan.length}, bools);
  for (const AttentionTile& tile : plan.tiles) {
    const int64_t num_queries = tile.query_end - tile.query_begin, num_keys = tile.key_end - tile.key_begin;
    mask_BTT.narrow(0, tile.row, tile.num_rows)
        .narrow(1, tile.query_begin, num_queries)
        .narrow(2, tile.key_begin, num_keys)
        .copy_(visible_keys(num_queries, num_keys, plan.window, q.device()));
    counted_BT.narrow(0, tile.row, tile.num_rows).narrow(1, tile.query_begin, num_queries).fill_(true);
  }
  mask_BTT.diagonal(0, 1, 2).fill_(true);
  return at::scaled_dot_product_attention(q, k, v, mask_BTT.unsqueeze(1), 0.0, false, scale, is_grouped)
      .transpose(1, 2)
      .masked_fill(counted_BT.logical_not().unsqueeze(-1).unsqueeze(-1), 0);
}

void check_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const AttentionPlan& plan,
                     const at::Tensor& sinks) {
  const auto text = [](const at::Tensor& x) { return c10::str(x.sizes(), " ", x.scalar_type()); };
  const bool has_shapes = q.dim() == 4 && k.dim() == 4 && v.dim() == 4 && q.size(3) == k.size(3) &&
                          k.size(2) == v.size(2) && k.size(2) > 0 && q.size(2) % k.size(2) == 0;
  const bool has_one_type = q.scalar_type() == k.scalar_type() && q.scalar_type() == v.scalar_type();
  const bool fits_plan = has_shapes && q.size(0) == plan.rows && q.size(1) == plan.length &&
                         k.sizes().slice(0, 2) == q.sizes().slice(0, 2) &&
                         v.sizes().slice(0, 2) == q.sizes().slice(0, 2);
  if (!has_one_type || !fits_plan) {
    shape_fault("ops.attention", "queries, keys, values and plan do not fit together",
                c10::str("q ", text(q), ", k ", text(k), ", v ", text(v)),
                c10::str("one type, [", plan.rows, ", ", plan.length, ", heads, width] with H a multiple of G"));
  }
  if (sinks.defined() && (sinks.dim() != 1 || sinks.size(0) != q.size(2))) {
    shape_fault("ops.attention", "the sinks do not fit the heads", text(sinks), c10::str("[", q.size(2), "]"));
  }
}

}  // namespace

at::Tensor visible_keys(int64_t num_queries, int64_t num_keys, int64_t window, const at::Device& device) {
  const int64_t offset = num_keys - num_queries;
  at::Tensor visible = at::ones({num_queries, num_keys}, at::TensorOptions().device(device).dtype(at::kBool));
  visible.tril_(offset);
  if (window > 0) visible.triu_(offset - window + 1);
  return visible;
}

AttentionKind choose_attention(const at::Tensor& q_BTHK, const AttentionOptions& options, const at::Tensor& sinks_H) {
  if (options.soft_cap > 0) return AttentionKind::kBlocks;
  if (q_BTHK.is_cpu()) return AttentionKind::kFlash;
  return sinks_H.defined() ? AttentionKind::kBlocks : AttentionKind::kMasked;
}

AttentionForward attention_forward_by(AttentionKind kind, const AttentionOperands& operands,
                                      std::shared_ptr<const AttentionPlan> plan, const AttentionOptions& options,
                                      const at::Tensor& sinks_H, const AttentionForward& given) {
  const auto& [q_BTHK, k_BTGK, v_BTGW] = operands;
  check_attention(q_BTHK, k_BTGK, v_BTGW, *plan, sinks_H);
  if (kind == AttentionKind::kMasked) return {masked_attention(q_BTHK, k_BTGK, v_BTGW, *plan, options.scale), {}};
  auto call = c10::make_intrusive<AttentionCall>();
  call->kind = kind;
  call->plan = std::move(plan);
  call->options = options;
  const auto results = AttentionFunction::apply(q_BTHK, k_BTGK, v_BTGW, optional_of(sinks_H), call, given);
  return {results[0], results[1]};
}

at::Tensor attention_by(AttentionKind kind, const at::Tensor& q_BTHK, const at::Tensor& k_BTGK,
                        const at::Tensor& v_BTGW, std::shared_ptr<const AttentionPlan> plan,
                        const AttentionOptions& options, const at::Tensor& sinks_H) {
  return attention_forward_by(kind, {q_BTHK, k_BTGK, v_BTGW}, std::move(plan), options, sinks_H, {}).out_BTHW;
}

AttentionForward attention_forward(const AttentionOperands& operands, std::shared_ptr<const AttentionPlan> plan,
                                   const AttentionOptions& options, const at::Tensor& sinks_H,
                                   const AttentionForward& given) {
  return attention_forward_by(choose_attention(operands.q_BTHK, options, sinks_H), operands, std::move(plan), options,
                              sinks_H, given);
}

at::Tensor attention(const at::Tensor& q_BTHK, const at::Tensor& k_BTGK, const at::Tensor& v_BTGW,
                     std::shared_ptr<const AttentionPlan> plan, const AttentionOptions& options,
                     const at::Tensor& sinks_H) {
  return attention_forward({q_BTHK, k_BTGK, v_BTGW}, std::move(plan), options, sinks_H).out_BTHW;
}

}  // namespace ballast
