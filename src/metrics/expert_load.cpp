// SPDX-License-Identifier: Apache-2.0
#include "metrics/expert_load.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "errors/errors.h"
#include "metrics/number.h"

namespace ballast {
namespace {

double total_of(std::span<const int64_t> counts) {
  return static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
}

std::string layer_tag(const std::string& name, int64_t layer) {
  return "learning/" + name + "/layer_" + zero_padded(layer, 3);
}

}  // namespace

double load_variance(std::span<const int64_t> counts) {
  if (counts.empty()) return 0;
  const double num_experts = static_cast<double>(counts.size());
  const double mean = total_of(counts) / num_experts;
  double square_sum = 0;
  for (const int64_t count : counts) square_sum += std::pow(static_cast<double>(count) - mean, 2);
  return square_sum / num_experts;
}

double load_max_over_mean(std::span<const int64_t> counts) {
  const double total = total_of(counts);
  if (total == 0) return 1;
  const double largest = static_cast<double>(*std::max_element(counts.begin(), counts.end()));
  return largest * static_cast<double>(counts.size()) / total;
}

int64_t num_dead_experts(std::span<const int64_t> counts) {
  return std::count(counts.begin(), counts.end(), 0);
}

double load_entropy(std::span<const int64_t> counts) {
  const double total = total_of(counts);
  if (total == 0 || counts.size() == 1) return 1;
  double entropy = 0;
  for (const int64_t count : counts) {
    const double share = static_cast<double>(count) / total;
    if (count > 0) entropy -= share * std::log(share);
  }
  return entropy / std::log(static_cast<double>(counts.size()));
}

Scalars load_tags(const std::vector<LayerLoad>& loads) {
  if (loads.empty()) return {};
  Scalars tags;
  double variance_sum = 0, max_over_mean = 0, entropy_sum = 0;
  int64_t num_top_k = 0, num_dead = 0;
  for (const LayerLoad& load : loads) {
    const double variance = load_variance(load.counts);
    tags.emplace_back(layer_tag("moe_load_variance", load.layer), variance);
    if (!load.is_hash_routed) {
      variance_sum += variance;
      ++num_top_k;
    }
    max_over_mean = std::max(max_over_mean, load_max_over_mean(load.counts));
    num_dead += num_dead_experts(load.counts);
    entropy_sum += load_entropy(load.counts);
  }
  if (num_top_k > 0)
    tags.emplace_back("learning/moe_load_variance_mean", variance_sum / static_cast<double>(num_top_k));
  tags.emplace_back("learning/moe_load_max_over_mean", max_over_mean);
  tags.emplace_back("learning/moe_dead_experts", static_cast<double>(num_dead));
  tags.emplace_back("learning/moe_load_entropy", entropy_sum / static_cast<double>(loads.size()));
  return tags;
}

Scalars bias_norm_tags(const std::vector<BiasUpdate>& updates) {
  Scalars tags;
  for (const BiasUpdate& update : updates) {
    BALLAST_CHECK(update.before.size() == update.after.size(), "a bias keeps its size");
    double before_square_sum = 0, update_square_sum = 0;
    for (size_t e = 0; e < update.before.size(); ++e) {
      before_square_sum += update.before[e] * update.before[e];
      update_square_sum += std::pow(update.after[e] - update.before[e], 2);
    }
    tags.emplace_back(layer_tag("moe_bias_before_norm", update.layer), std::sqrt(before_square_sum));
    tags.emplace_back(layer_tag("moe_bias_update_norm", update.layer), std::sqrt(update_square_sum));
  }
  return tags;
}

}  // namespace ballast
