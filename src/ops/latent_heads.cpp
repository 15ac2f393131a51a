// SPDX-License-Identifier: Apache-2.0
#include "ops/latent_heads.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/arguments.h"

namespace ballast {
namespace {

struct LatentHeadsFunction : torch::autograd::Function<LatentHeadsFunction> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const at::Tensor& kv,
                                                const at::Tensor& shared, int64_t num_unrotated) {
    std::vector<int64_t> shape = kv.sizes().vec();
    const int64_t num_rotated = shared.size(3), value_width = kv.size(3) - num_unrotated;
    context->saved_data["shape"] = shape;
    context->saved_data["num_unrotated"] = num_unrotated;
    context->set_materialize_grads(false);
    shape.back() = num_unrotated + num_rotated;
    at::Tensor k = at::empty(shape, kv.options());
    k.narrow(3, 0, num_unrotated).copy_(kv.narrow(3, 0, num_unrotated));
    k.narrow(3, num_unrotated, num_rotated).copy_(shared.expand({-1, -1, kv.size(2), -1}));
    return {k, fresh_handle(kv.narrow(3, num_unrotated, value_width))};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const at::Tensor &d_k = gradients[0], &d_v = gradients[1];
    const std::vector<int64_t> shape = context->saved_data["shape"].toIntVector();
    const int64_t num_unrotated = context->saved_data["num_unrotated"].toInt();
    const at::Tensor& given = d_k.defined() ? d_k : d_v;
    if (!given.defined()) return {at::Tensor(), at::Tensor(), at::Tensor()};
    at::Tensor d_kv = at::empty(shape, given.options()), d_shared;
    at::Tensor unrotated = d_kv.narrow(3, 0, num_unrotated);
    at::Tensor values = d_kv.narrow(3, num_unrotated, shape[3] - num_unrotated);
    if (d_k.defined()) {
      unrotated.copy_(d_k.narrow(3, 0, num_unrotated));
      d_shared = d_k.narrow(3, num_unrotated, d_k.size(3) - num_unrotated).sum(2, /*keepdim=*/true);
    } else {
      unrotated.zero_();
    }
    if (d_v.defined()) {
      values.copy_(d_v);
    } else {
      values.zero_();
    }
    return {d_kv, d_shared, at::Tensor()};
  }
};

}  // namespace

LatentHeads latent_heads(const at::Tensor& kv_BTHC, const at::Tensor& shared_BT1R, int64_t num_unrotated) {
  const bool fits = kv_BTHC.dim() == 4 && shared_BT1R.dim() == 4 && shared_BT1R.size(2) == 1 &&
                    kv_BTHC.sizes().slice(0, 2) == shared_BT1R.sizes().slice(0, 2) &&
                    kv_BTHC.scalar_type() == shared_BT1R.scalar_type() && num_unrotated >= 0 &&
                    num_unrotated < kv_BTHC.size(3);
  if (!fits) {
    shape_fault("ops.latent_heads", "the projection and the shared key do not fit together",
                c10::str(kv_BTHC.sizes(), " ", kv_BTHC.scalar_type(), " and ", shared_BT1R.sizes(), " ",
                         shared_BT1R.scalar_type()),
                c10::str("one type, [B, T, H, more than ", num_unrotated, "] and [B, T, 1, R]"));
  }
  const auto results = LatentHeadsFunction::apply(kv_BTHC, shared_BT1R, num_unrotated);
  return {results[0], results[1]};
}

}  // namespace ballast
