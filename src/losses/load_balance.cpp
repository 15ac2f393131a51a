// SPDX-License-Identifier: Apache-2.0
#include "losses/load_balance.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace ballast {

BalanceGroups make_balance_groups(const at::Tensor& segment_BT, const at::Tensor& instance_B, const MoeTraining& moe) {
  const at::NoGradGuard no_grad;
  BalanceGroups groups;
  groups.rows = segment_BT.size(0);
  groups.length = segment_BT.size(1);
  const at::Tensor is_routed_BT = segment_BT.ne(0), tokens_B = is_routed_BT.sum(1);
  if (tokens_B.sum().item<int64_t>() < segment_BT.numel()) groups.is_routed_N = is_routed_BT.flatten();
  int64_t num_groups = 1;
  if (moe.groups_by_row) {
    groups.group_B = at::arange(groups.rows, instance_B.options());
    num_groups = groups.rows;
  } else if (moe.group_instances > 0) {
    const at::Tensor block_B = instance_B.div(moe.group_instances, "floor");
    const auto unique = at::_unique(block_B, /*sorted=*/true, /*return_inverse=*/true);
    groups.group_B = std::get<1>(unique);
    num_groups = std::get<0>(unique).size(0);
  } else {
    groups.group_B = at::zeros({groups.rows}, instance_B.options());
  }
  groups.tokens_G = at::zeros({num_groups}, tokens_B.options()).index_add_(0, groups.group_B, tokens_B);
  return groups;
}

at::Tensor without_padding(const at::Tensor& expert_NK, const BalanceGroups& groups) {
  if (!groups.is_routed_N.defined()) return expert_NK;
  return expert_NK.masked_fill(groups.is_routed_N.logical_not().unsqueeze(1), -1);
}

at::Tensor count_choices(const at::Tensor& expert_NK, const BalanceGroups& groups, int64_t num_experts) {
  const at::NoGradGuard no_grad;
  // Column 0 takes what is not counted.
  const at::Tensor expert_BC = (expert_NK + 1).view({groups.rows, -1});
  const at::Tensor counts_BE = at::zeros({groups.rows, num_experts + 1}, expert_NK.options())
                                   .scatter_add_(1, expert_BC, at::ones_like(expert_BC))
                                   .narrow(1, 1, num_experts);
  return at::zeros({groups.num_groups(), num_experts}, expert_NK.options()).index_add_(0, groups.group_B, counts_BE);
}

at::Tensor drop_over_capacity(const at::Tensor& expert_NK, int64_t rows, int64_t num_experts, double capacity_factor) {
  const at::NoGradGuard no_grad;
  const at::Tensor kept = expert_NK.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true).contiguous();
  auto* choice = kept.mutable_data_ptr<int64_t>();
  const int64_t row_size = kept.numel() / std::max<int64_t>(rows, 1);
  std::vector<int64_t> taken(static_cast<size_t>(num_experts));
  for (int64_t row = 0; row < rows; ++row, choice += row_size) {
    const auto routed = std::count_if(choice, choice + row_size, [](int64_t expert) { return expert >= 0; });
    const double share = std::ceil(static_cast<double>(routed) / static_cast<double>(num_experts));
    const auto capacity = static_cast<int64_t>(std::max(share * capacity_factor, capacity_factor));
    std::fill(taken.begin(), taken.end(), 0);
    for (int64_t i = 0; i < row_size; ++i) {
      if (choice[i] >= 0 && ++taken[static_cast<size_t>(choice[i])] > capacity) choice[i] = -1;
    }
  }
  return kept.to(expert_NK.device());
}

at::Tensor load_balance_loss(const at::Tensor& probs_NE, const at::Tensor& counts_GE, const BalanceGroups& groups,
                             const LoadBalanceOptions& options) {
  const int64_t num_experts = probs_NE.size(1);
  at::Tensor probs = probs_NE;
  if (groups.is_routed_N.defined()) probs = probs.masked_fill(groups.is_routed_N.logical_not().unsqueeze(1), 0);
  const at::Tensor probs_BE = probs.view({groups.rows, groups.length, num_experts}).sum(1);
  // The counts of its group, with all divisors, weigh a row's sum of probabilities.
  double factor = static_cast<double>(num_experts) / options.divisor;
  if (options.form != LoadBalanceForm::kMaxText) factor /= static_cast<double>(options.num_experts_per_tok);
  const at::Tensor tokens_G1 = groups.tokens_G.clamp_min(1).to(probs.scalar_type()).unsqueeze(1);
  at::Tensor weight_GE = counts_GE.to(probs.scalar_type()) / tokens_G1;
  if (options.form != LoadBalanceForm::kOlmo) weight_GE.div_(tokens_G1);
  return (probs_BE * weight_GE.mul_(factor).index_select(0, groups.group_B)).sum();
}

at::Tensor router_z_loss(const at::Tensor& logits_NE, const BalanceGroups& groups, double divisor) {
  at::Tensor squares_N = at::logsumexp(logits_NE, -1).square();
  if (groups.is_routed_N.defined()) squares_N = squares_N.masked_fill(groups.is_routed_N.logical_not(), 0);
  return squares_N.sum() / divisor;
}

}  // namespace ballast
