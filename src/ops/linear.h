// SPDX-License-Identifier: Apache-2.0
// Linear projection that also takes activations and weights of different floating types.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace ballast {

/// x weight^T + bias.
///
/// Where the types of x and weight differ (bf16 activations, bf16-rounded weights held in fp32 on a processor without
/// bf16 products), the product runs in the wider type and the result is cast to the type of x. Backward then keeps x
/// as it came and casts again.
///
/// @param x       [..., I]
/// @param weight  [O, I]
/// @param bias    [O]; undefined: none
/// @param given   the result if it is known from an earlier run, as linear_group() takes it
/// @return        [..., O] in the type of x
/// @throws ShapeError if the shapes disagree
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  const std::vector<at::Tensor>& given = {});

/// One projection of a group.
struct Projection {
  at::Tensor weight;  ///< [O, I]
  at::Tensor bias;    ///< [O]; undefined: none
};

/// linear() of one x by several weights of one type, each result in its place. Backward forms the gradient of x in one
/// buffer that each product adds to, instead of one tensor a projection and their sums.
///
/// @param given  results known from an earlier run, one a projection, undefined: to be formed. A given result is
///               returned without a product, with its place in the graph; empty: none is given
/// @throws ShapeError if the shapes or the types of the weights disagree
std::vector<at::Tensor> linear_group(const at::Tensor& x, const std::vector<Projection>& projections,
                                     const std::vector<at::Tensor>& given = {});

}  // namespace ballast
