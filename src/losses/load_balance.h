// SPDX-License-Identifier: Apache-2.0
// Balance of experts: counts of choices, the balance losses, the router's z-loss, dropping over capacity.
//
// Shape letters: B rows, T positions, N = B*T tokens, K choices a token, E experts, G groups of rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "spec/decoder_spec.h"

namespace ballast {

/// The groups of rows over which a micro-batch takes balance statistics. Padding belongs to no group.
struct BalanceGroups {
  int64_t rows = 0;
  int64_t length = 0;
  at::Tensor is_routed_N;  ///< bool: not padding; undefined: no padding at all
  at::Tensor group_B;      ///< int64 group of each row, in [0, G)
  at::Tensor tokens_G;     ///< int64 routed tokens of each group

  int64_t num_groups() const { return tokens_G.size(0); }
};

/// Row r alone (`groups_by_row`), else rows whose instance numbers share instance / group_instances, else all.
BalanceGroups make_balance_groups(const at::Tensor& segment_BT, const at::Tensor& instance_B, const MoeTraining& moe);

/// `expert_NK` with -1 where the token is padding.
at::Tensor without_padding(const at::Tensor& expert_NK, const BalanceGroups& groups);

/// How often each group chose each expert, int64 [G, E]. Choices below 0 are not counted.
at::Tensor count_choices(const at::Tensor& expert_NK, const BalanceGroups& groups, int64_t num_experts);

/// Drops what an expert gets beyond its capacity in a row: -1 in place of the expert. Choices are ranked in the order
/// (token, slot); with n routed tokens in the row
///
///   capacity = int(max(ceil(n K / E) * capacity_factor, capacity_factor))
///
/// Padding takes no capacity and does not raise it.
/// @source AI-Hypercomputer/maxtext src/maxtext/layers/moe.py (generate_masks), which counts padding in n
at::Tensor drop_over_capacity(const at::Tensor& expert_NK, int64_t rows, int64_t num_experts, double capacity_factor);

struct LoadBalanceOptions {
  LoadBalanceForm form = LoadBalanceForm::kMaxText;
  int64_t num_experts_per_tok = 0;  ///< K
  /// kMaxText, kDeepSeek: non-empty groups of the whole step. kOlmo: routed (or loss) tokens of the whole step.
  double divisor = 1;
};

/// This micro-batch's share of a layer's balance loss, a scalar: shares add up over the micro-batches and ranks of a
/// step. With n_g tokens, counts c_ge and probabilities p of group g:
///
///   kMaxText   E / divisor * sum over g, e of (c_ge / n_g) * (mean over g of p_e)          at balance K
///   kDeepSeek  E / (K divisor) * sum over g, e of (c_ge / n_g) * (mean over g of p_e)      at balance 1
///   kOlmo      E / (K divisor) * sum over g, e of (c_ge / n_g) * (sum over g of p_e)       at balance 1
///
/// Groups without tokens have none. Gradient flows through the probabilities only, never through counts.
///
/// @param probs_NE   probabilities over all experts, fp32 or fp64
/// @param counts_GE  count_choices() before any dropping
/// @source AI-Hypercomputer/maxtext src/maxtext/layers/moe.py (load_balance_loss); DeepSeek-V3 report, equations 17-20;
///         allenai/OLMo-core src/olmo_core/nn/moe/loss.py
at::Tensor load_balance_loss(const at::Tensor& probs_NE, const at::Tensor& counts_GE, const BalanceGroups& groups,
                             const LoadBalanceOptions& options);

/// Sum over routed tokens of logsumexp(logits)^2 / divisor, a scalar. @source arXiv 2202.08906, equation 5
at::Tensor router_z_loss(const at::Tensor& logits_NE, const BalanceGroups& groups, double divisor);

}  // namespace ballast
