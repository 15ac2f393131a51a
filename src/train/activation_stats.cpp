// SPDX-License-Identifier: Apache-2.0
#include "train/activation_stats.h"

#include <ATen/core/grad_mode.h>

#include "metrics/number.h"

namespace ballast {
namespace {

/// Empty: not a number of this file.
std::string activation_tag(LayerStatKind kind) {
  switch (kind) {
    case LayerStatKind::kActivationZeroShare:
      return "activ_fraction_zero";
    case LayerStatKind::kActivationMean:
      return "activ_mean";
    case LayerStatKind::kActivationStdev:
      return "activ_stdev";
    default:
      return {};
  }
}

}  // namespace

void add_activation_stats(LayerStats& stats, int64_t layer, const at::Tensor& stream_BTD) {
  const at::NoGradGuard no_grad;
  const at::Tensor stream = stream_BTD.scalar_type() == at::kDouble ? stream_BTD : stream_BTD.to(at::kFloat);
  const auto [stdev, mean] = at::std_mean(stream, /*unbiased=*/false);
  const double num_zeros = static_cast<double>(stream.numel() - at::count_nonzero(stream).item<int64_t>());
  const double size = static_cast<double>(stream.numel());
  stats.add(layer, LayerStatKind::kActivationZeroShare, at::scalar_tensor(num_zeros / size, at::kDouble));
  stats.add(layer, LayerStatKind::kActivationMean, mean);
  stats.add(layer, LayerStatKind::kActivationStdev, stdev);
}

void ActivationSums::add(const LayerStats& stats) {
  for (const LayerStat& entry : stats.entries()) {
    const std::string tag = activation_tag(entry.kind);
    if (!tag.empty()) sums_[{tag, entry.layer}] += entry.value.item<double>();
  }
}

std::vector<double> ActivationSums::values() const {
  std::vector<double> values;
  for (const auto& [key, sum] : sums_) values.push_back(sum);
  return values;
}

std::vector<std::pair<std::string, double>> ActivationSums::tagged(const std::vector<double>& sums,
                                                                   int64_t divisor) const {
  std::vector<std::pair<std::string, double>> tagged;
  for (const auto& [key, sum] : sums_) {
    const double mean = sums.at(tagged.size()) / static_cast<double>(divisor);
    tagged.emplace_back(key.first + "/layer_" + zero_padded(key.second, 3), mean);
  }
  return tagged;
}

}  // namespace ballast
