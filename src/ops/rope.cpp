// SPDX-License-Identifier: Apache-2.0
#include "ops/rope.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "ops/arguments.h"
#include "ops/kernel_arguments.h"
#include "ops/rope_kernel.h"

namespace ballast {
namespace {

/// Which channels of a head make pairs.
struct RopeChannels {
  int64_t first = 0;
  bool is_interleaved = false;
};

/// First and second members of the rotating pairs, each [B, T, H, R].
std::pair<at::Tensor, at::Tensor> rope_pairs(const at::Tensor& x_BTHK, int64_t num_pairs, RopeChannels channels) {
  const at::Tensor rotating = x_BTHK.narrow(-1, channels.first, 2 * num_pairs);
  if (!channels.is_interleaved) return {rotating.narrow(-1, 0, num_pairs), rotating.narrow(-1, num_pairs, num_pairs)};
  return {rotating.slice(-1, 0, std::nullopt, 2), rotating.slice(-1, 1, std::nullopt, 2)};
}

/// (a, b) -> (a cos - b sin, b cos + a sin); direction -1 turns back. By tensor operations: any device, any type.
at::Tensor composed_rotation(const at::Tensor& x_BTHK, const at::Tensor& cos_BTR, const at::Tensor& sin_BTR,
                             RopeChannels channels, double direction) {
  const at::ScalarType type = at::promote_types(x_BTHK.scalar_type(), cos_BTR.scalar_type());
  const at::Tensor source = x_BTHK.to(type);
  const at::Tensor cos = cos_BTR.to(type).unsqueeze(2), sin = sin_BTR.to(type).unsqueeze(2);
  const int64_t num_pairs = cos_BTR.size(-1), end = channels.first + 2 * num_pairs;
  at::Tensor result = at::empty(source.sizes(), source.options());
  const auto [a, b] = rope_pairs(source, num_pairs, channels);
  auto [new_a, new_b] = rope_pairs(result, num_pairs, channels);
  at::mul_out(new_a, a, cos).addcmul_(b, sin, -direction);
  at::mul_out(new_b, b, cos).addcmul_(a, sin, direction);
  const auto pass = [&](int64_t begin, int64_t past) {
    if (past > begin) result.narrow(-1, begin, past - begin).copy_(source.narrow(-1, begin, past - begin));
  };
  pass(0, channels.first);
  pass(end, source.size(-1));
  return result.to(x_BTHK.scalar_type());
}

/// The same in one pass on the CPU: fp32 inside, rounded once.
at::Tensor kernel_rotation(const at::Tensor& given_BTHK, const at::Tensor& cos_BTR, const at::Tensor& sin_BTR,
                           RopeChannels channels, double direction) {
  const at::Tensor x = given_BTHK.stride(3) == 1 ? given_BTHK : given_BTHK.contiguous();
  const at::Tensor cos = cos_BTR.to(at::kFloat).contiguous(), sin = sin_BTR.to(at::kFloat).contiguous();
  const at::Tensor out = at::empty(x.sizes(), x.options());
  with_kernel_type(x.scalar_type(), [&]<typename T>(T) {
    const RopeHeads<T> heads{.x = kernel_data<T>(x),
                             .row_stride = x.stride(0),
                             .position_stride = x.stride(1),
                             .head_stride = x.stride(2),
                             .out = mutable_kernel_data<T>(out),
                             .length = x.size(1),
                             .num_heads = x.size(2),
                             .width = x.size(3),
                             .cos = cos.const_data_ptr<float>(),
                             .sin = sin.const_data_ptr<float>(),
                             .num_pairs = cos.size(-1),
                             .first = channels.first,
                             .is_interleaved = channels.is_interleaved,
                             .direction = static_cast<float>(direction)};
    at::parallel_for(0, x.size(0) * x.size(1), kKernelGrain / (x.size(2) * x.size(3)) + 1,
                     [&](int64_t begin, int64_t end) { rope_tokens(heads, begin, end); });
  });
  return out;
}

at::Tensor rotate_pairs(const at::Tensor& x_BTHK, const at::Tensor& cos_BTR, const at::Tensor& sin_BTR,
                        RopeChannels channels, double direction) {
  const bool uses_kernel = kernels_take({x_BTHK}) && cos_BTR.scalar_type() != at::kDouble;
  return (uses_kernel ? kernel_rotation : composed_rotation)(x_BTHK, cos_BTR, sin_BTR, channels, direction);
}

struct RopeFunction : torch::autograd::Function<RopeFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x_BTHK,
                            const at::Tensor& cos_BTR, const at::Tensor& sin_BTR, RopeChannels channels) {
    context->save_for_backward({cos_BTR, sin_BTR});
    context->saved_data["first"] = channels.first;
    context->saved_data["is_interleaved"] = channels.is_interleaved;
    return rotate_pairs(x_BTHK, cos_BTR, sin_BTR, channels, 1);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const RopeChannels channels{.first = context->saved_data["first"].toInt(),
                                .is_interleaved = context->saved_data["is_interleaved"].toBool()};
    return {rotate_pairs(gradients[0], saved[0], saved[1], channels, -1), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

RopeTable rope_table(const at::Tensor& position_BT, const RopeSpec& rope, at::ScalarType table_dtype) {
  const at::ScalarType type = at::toOpMathType(table_dtype);
  const at::Tensor frequency_R =
      at::tensor(at::ArrayRef<double>(rope_frequencies(rope)), at::kDouble).to(position_BT.device(), type);
  const at::Tensor angle_BTR = position_BT.to(type).unsqueeze(-1) * frequency_R;
  const auto entry = [&](const at::Tensor& value) {
    if (rope.attention_factor != 1) value.mul_(rope.attention_factor);
    return rope.multiplies_in_fp32 ? value : value.to(table_dtype);
  };
  return {.cos_BTR = entry(angle_BTR.cos()), .sin_BTR = entry(angle_BTR.sin())};
}

at::Tensor apply_rope(const at::Tensor& x_BTHK, const RopeTable& table, const RopeSpec& rope, int64_t first_channel) {
  if (x_BTHK.dim() != 4 || first_channel < 0 || first_channel + rope.rotary_dim > x_BTHK.size(3)) {
    shape_fault("ops.apply_rope", "the heads are too narrow for the rotation", c10::str(x_BTHK.sizes()),
                c10::str("[B, T, H, K >= ", first_channel + rope.rotary_dim, "]"));
  }
  const std::vector<int64_t> expected = {x_BTHK.size(0), x_BTHK.size(1), rope.rotary_dim / 2};
  if (table.cos_BTR.sizes() != at::IntArrayRef(expected)) {
    shape_fault("ops.apply_rope", "the table does not fit the heads", c10::str(table.cos_BTR.sizes()),
                c10::str(at::IntArrayRef(expected)));
  }
  return RopeFunction::apply(x_BTHK, table.cos_BTR, table.sin_BTR,
                             RopeChannels{.first = first_channel, .is_interleaved = rope.is_interleaved});
}

}  // namespace ballast
