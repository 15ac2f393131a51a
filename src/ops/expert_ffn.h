// SPDX-License-Identifier: Apache-2.0
// The routed experts of a layer: only chosen ones are computed, each as products over all its tokens.
//
// Shape letters: N tokens, K choices a token, E experts, R rows = choices that are computed, D width of a token,
// F width of an expert.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ops/activation.h"
#include "ops/expert_plan.h"

namespace ballast {

/// Weights of all experts in one tensor each, matrices [E, out, in].
struct ExpertWeights {
  at::Tensor gate_EFD, up_EFD, down_EDF;
  at::Tensor gate_bias_EF, up_bias_EF, down_bias_ED;  ///< all undefined: no biases
};

/// What an expert makes of gate and up.
using ExpertForm = GatedForm;

/// What expert_ffn() returns.
struct ExpertOutputs {
  at::Tensor gate_RF, up_RF;  ///< products of a row with its expert's input matrices, biases included; no gradient
  at::Tensor y_ND;            ///< sum over a token's computed choices of weight * expert(x), in the type of x
};

/// The experts' outputs, summed with the router's weights in fp32 (fp64 for fp64); tokens without a computed choice
/// get 0. Backward keeps x, gate and up and forms nothing that was formed before: the gradient of a routing weight is
/// the inner product of the activated row with the gradient that reaches it. Experts without rows cost nothing and get
/// zero gradients.
///
/// On a CPU small experts run side by side, one thread each; large ones one after another with all threads. Results do
/// not depend on which. Where the types of x and the weights differ, products run in the wider type.
///
/// @param x_ND       tokens
/// @param weight_NK  fp32 routing weights (fp64 for fp64 x); entries of choices that are not computed are not read
/// @param given      outputs known from an earlier run, undefined: to be formed. A given y is returned as it is, with
///                   its place in the graph, and nothing of it is formed again
/// @throws ShapeError if the shapes disagree
ExpertOutputs expert_ffn(const at::Tensor& x_ND, const at::Tensor& weight_NK, const ExpertPlan& plan,
                         const ExpertWeights& weights, const ExpertForm& form, const ExpertOutputs& given = {});

}  // namespace ballast
