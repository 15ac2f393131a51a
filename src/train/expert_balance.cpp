// SPDX-License-Identifier: Apache-2.0
#include "train/expert_balance.h"

#include <numeric>

namespace ballast {
namespace {

std::vector<double> values_of(const at::Tensor& bias_E) {
  const at::Tensor wide = bias_E.to(at::kCPU, at::kDouble).contiguous();
  return {wide.const_data_ptr<double>(), wide.const_data_ptr<double>() + wide.numel()};
}

}  // namespace

void ExpertBalance::start() {
  counts_.clear();
  updates_.clear();
  load_balance_ = router_z_ = num_dropped_ = 0;
}

void ExpertBalance::add(const LayerStats& stats) {
  load_balance_ += stats.sum(LayerStatKind::kLoadBalance);
  router_z_ += stats.sum(LayerStatKind::kRouterZ);
  num_dropped_ += stats.sum(LayerStatKind::kDroppedChoices);
  for (const LayerStat& entry : stats.entries()) {
    if (entry.kind != LayerStatKind::kExpertCounts) continue;
    const at::Tensor counts_E = entry.value.to(at::kCPU).contiguous();
    std::vector<int64_t>& sums = counts_[entry.layer];
    sums.resize(static_cast<size_t>(counts_E.numel()));
    const auto* own = counts_E.const_data_ptr<int64_t>();
    for (size_t e = 0; e < sums.size(); ++e) sums[e] += own[e];
  }
}

void ExpertBalance::sum(const World& world) {
  // Doubles hold whole numbers up to 2^53 exactly.
  std::vector<double> sums = {load_balance_, router_z_, num_dropped_};
  for (const auto& [layer, counts] : counts_) sums.insert(sums.end(), counts.begin(), counts.end());
  world.sum_over_data(sums);
  load_balance_ = sums[0];
  router_z_ = sums[1];
  num_dropped_ = sums[2];
  size_t next = 3;
  for (auto& [layer, counts] : counts_) {
    for (int64_t& count : counts) count = static_cast<int64_t>(sums[next++]);
  }
}

void ExpertBalance::update_bias(double rate) {
  const at::NoGradGuard no_grad;
  for (const auto& [layer, counts] : counts_) {
    const at::Tensor bias_E = decoder_.selection_bias(static_cast<size_t>(layer));
    if (!bias_E.defined()) continue;
    const auto num_experts = static_cast<int64_t>(counts.size());
    const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    std::vector<int64_t> signs;
    for (const int64_t count : counts) {
      const int64_t gap = total - num_experts * count;
      signs.push_back(gap > 0 ? 1 : gap < 0 ? -1 : 0);
    }
    BiasUpdate update{.layer = layer, .before = values_of(bias_E), .after = {}};
    if (rate > 0) bias_E.add_(at::tensor(signs, at::kLong).to(bias_E.options()), rate);
    update.after = values_of(bias_E);
    updates_.push_back(std::move(update));
  }
}

std::vector<LayerLoad> ExpertBalance::loads() const {
  std::vector<LayerLoad> loads;
  for (const auto& [layer, counts] : counts_) {
    const at::Tensor bias_E = decoder_.selection_bias(static_cast<size_t>(layer));
    loads.push_back({.layer = layer,
                     .is_hash_routed = false,
                     .counts = counts,
                     .bias = bias_E.defined() ? values_of(bias_E) : std::vector<double>()});
  }
  return loads;
}

void ExpertBalance::fill(StepNumbers& numbers) const {
  const MoeTraining& moe = decoder_.spec().moe;
  numbers.moe_lb_loss = load_balance_;
  if (counts_.empty()) return;
  if (moe.router_z_weight > 0) numbers.router_z_loss = router_z_;
  if (moe.capacity_factor > 0) {
    double num_choices = 0;
    for (const auto& [layer, counts] : counts_) num_choices += std::accumulate(counts.begin(), counts.end(), 0.0);
    numbers.moe_dropped_share = num_choices > 0 ? num_dropped_ / num_choices : 0;
  }
  const Scalars tags = load_tags(loads());
  numbers.more.insert(numbers.more.end(), tags.begin(), tags.end());
}

}  // namespace ballast
