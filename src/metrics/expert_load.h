// SPDX-License-Identifier: Apache-2.0
// How evenly the tokens of a step are spread over the experts of its layers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ballast {

/// Assignments of one step to the experts of one layer, over all ranks and micro-batches. A token that goes to K
/// experts counts K times; choices that a full expert drops count, padding does not.
struct LayerLoad {
  int64_t layer = 0;            ///< decoder layer from 0; MTP module j is layer L + j
  bool is_hash_routed = false;  ///< by token id, not by a router
  std::vector<int64_t> counts;  ///< [E]
  std::vector<double> bias;     ///< [E], the selection bias after the step's update; empty: the layer has none
};

/// Population variance over the experts: 1/E * sum (c_e - mean)^2. 0 without experts.
double load_variance(std::span<const int64_t> counts);
/// The largest count over the mean count: 1 at balance, E at most. 1 where nothing was routed.
double load_max_over_mean(std::span<const int64_t> counts);
/// Experts that no token went to.
int64_t num_dead_experts(std::span<const int64_t> counts);
/// -sum p ln p / ln E, p the share of an expert: 1 at balance, 0 where all goes to one. 1 for one expert, and where
/// nothing was routed.
double load_entropy(std::span<const int64_t> counts);

using Scalars = std::vector<std::pair<std::string, double>>;

/// Tags of docs/metrics.md for StepNumbers::more: learning/moe_load_variance/layer_NNN of each layer, then
/// learning/moe_load_variance_mean over layers with a router (absent without one), learning/moe_load_max_over_mean (the
/// largest), learning/moe_dead_experts (sum) and learning/moe_load_entropy (mean). Nothing for no layers.
Scalars load_tags(const std::vector<LayerLoad>& loads);

/// Selection bias of one layer around its update.
struct BiasUpdate {
  int64_t layer = 0;
  std::vector<double> before, after;  ///< [E] each
};

/// Per layer the L2 norms learning/moe_bias_before_norm/layer_NNN of `before` and
/// learning/moe_bias_update_norm/layer_NNN of `after - before`.
Scalars bias_norm_tags(const std::vector<BiasUpdate>& updates);

}  // namespace ballast
