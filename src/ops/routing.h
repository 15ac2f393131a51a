// SPDX-License-Identifier: Apache-2.0
// From router logits to chosen experts and their weights, all in fp32 (fp64 for fp64).
//
// Shape letters: N tokens, K choices a token, E experts.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "spec/decoder_spec.h"

namespace ballast {

/// Scores by which experts are chosen, [N, E]: the logits, their softmax, sigmoid or sqrt(softplus). Differentiable.
at::Tensor router_scores(const at::Tensor& logits_NE, RouterScore score);

/// Probabilities over all experts that a score stands for, [N, E]: the softmax of the logits, or each score over the
/// sum of the token's scores. The latter is formed from logarithms, so tiny scores lose nothing. Differentiable.
at::Tensor router_shares(const at::Tensor& logits_NE, RouterScore score);

/// The K experts of largest score, int64 [N, K], by falling score; among equal scores the lower expert comes first.
///
/// With groups, the experts are `num_groups` runs of neighbours; only the `num_kept_groups` groups of largest
/// GroupScore, the best score or the sum of the two best (equal ones: the lower group), may be chosen from.
/// @source AI-Hypercomputer/maxtext src/maxtext/layers/moe.py (deepseek_routing)
/// @source huggingface/transformers src/transformers/models/deepseek_v2/modeling_deepseek_v2.py (DeepseekV2TopkRouter)
at::Tensor choose_experts(const at::Tensor& score_NE, const RouterSpec& router);

/// Weights of the chosen experts, [N, K]. Differentiable.
///
///   normalised  scaling_factor * s / (sum of the chosen s), formed as a softmax of logarithms: finite for any logits
///   else        scaling_factor * s
///
/// @param expert_NK  int64; entries below 0 get the weight of expert 0, to be ignored
at::Tensor routing_weights(const at::Tensor& logits_NE, const at::Tensor& expert_NK, const RouterSpec& router);

}  // namespace ballast
