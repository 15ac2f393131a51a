// SPDX-License-Identifier: Apache-2.0
#include "ops/rope.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "ops/arguments.h"

namespace ballast {
namespace {

/// First and second members of the rotating pairs, each [B, T, H, R].
std::pair<at::Tensor, at::Tensor> rope_pairs(const at::Tensor& x_BTHK, int64_t num_pairs, bool is_interleaved) {
  if (!is_interleaved) return {x_BTHK.narrow(-1, 0, num_pairs), x_BTHK.narrow(-1, num_pairs, num_pairs)};
  const at::Tensor rotating = x_BTHK.narrow(-1, 0, 2 * num_pairs);
  return {rotating.slice(-1, 0, std::nullopt, 2), rotating.slice(-1, 1, std::nullopt, 2)};
}

/// (a, b) -> (a cos - b sin, b cos + a sin); direction -1 turns back.
at::Tensor rotate_pairs(const at::Tensor& x_BTHK, const at::Tensor& cos_BTR, const at::Tensor& sin_BTR,
                        bool is_interleaved, double direction) {
  const at::ScalarType type = at::promote_types(x_BTHK.scalar_type(), cos_BTR.scalar_type());
  const at::Tensor source = x_BTHK.to(type);
  const at::Tensor cos = cos_BTR.to(type).unsqueeze(2), sin = sin_BTR.to(type).unsqueeze(2);
  const int64_t num_pairs = cos_BTR.size(-1), num_passing = source.size(-1) - 2 * num_pairs;
  at::Tensor result = at::empty(source.sizes(), source.options());
  const auto [a, b] = rope_pairs(source, num_pairs, is_interleaved);
  auto [new_a, new_b] = rope_pairs(result, num_pairs, is_interleaved);
  at::mul_out(new_a, a, cos).addcmul_(b, sin, -direction);
  at::mul_out(new_b, b, cos).addcmul_(a, sin, direction);
  if (num_passing > 0) {
    result.narrow(-1, 2 * num_pairs, num_passing).copy_(source.narrow(-1, 2 * num_pairs, num_passing));
  }
  return result.to(x_BTHK.scalar_type());
}

struct RopeFunction : torch::autograd::Function<RopeFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x_BTHK,
                            const at::Tensor& cos_BTR, const at::Tensor& sin_BTR, bool is_interleaved) {
    context->save_for_backward({cos_BTR, sin_BTR});
    context->saved_data["is_interleaved"] = is_interleaved;
    return rotate_pairs(x_BTHK, cos_BTR, sin_BTR, is_interleaved, 1);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const bool is_interleaved = context->saved_data["is_interleaved"].toBool();
    return {rotate_pairs(gradients[0], saved[0], saved[1], is_interleaved, -1), at::Tensor(), at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

RopeTable rope_table(const at::Tensor& position_BT, const RopeSpec& rope, at::ScalarType table_dtype) {
  const at::ScalarType type = at::toOpMathType(table_dtype);
  const at::Tensor frequency_R =
      at::tensor(at::ArrayRef<double>(rope_frequencies(rope)), at::kDouble).to(position_BT.device(), type);
  const at::Tensor angle_BTR = position_BT.to(type).unsqueeze(-1) * frequency_R;
  const auto entry = [&](at::Tensor value) {
    if (rope.attention_factor != 1) value.mul_(rope.attention_factor);
    return rope.multiplies_in_fp32 ? value : value.to(table_dtype);
  };
  return {.cos_BTR = entry(angle_BTR.cos()), .sin_BTR = entry(angle_BTR.sin())};
}

at::Tensor apply_rope(const at::Tensor& x_BTHK, const RopeTable& table, const RopeSpec& rope) {
  if (x_BTHK.dim() != 4 || rope.rotary_dim > x_BTHK.size(3)) {
    shape_fault("ops.apply_rope", "the heads are too narrow for the rotation", c10::str(x_BTHK.sizes()),
                c10::str("[B, T, H, K >= ", rope.rotary_dim, "]"));
  }
  const std::vector<int64_t> expected = {x_BTHK.size(0), x_BTHK.size(1), rope.rotary_dim / 2};
  if (table.cos_BTR.sizes() != at::IntArrayRef(expected)) {
    shape_fault("ops.apply_rope", "the table does not fit the heads", c10::str(table.cos_BTR.sizes()),
                c10::str(at::IntArrayRef(expected)));
  }
  return RopeFunction::apply(x_BTHK, table.cos_BTR, table.sin_BTR, rope.is_interleaved);
}

}  // namespace ballast
