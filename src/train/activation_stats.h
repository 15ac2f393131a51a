// SPDX-License-Identifier: Apache-2.0
// Numbers about the output of each layer, for record_internal_nn_metrics.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "losses/layer_stats.h"

namespace ballast {

/// Adds share of zeros, mean and population deviation of a layer's output, each over all its elements, padding
/// included. Computed in fp32 (fp64 for an fp64 stream).
void add_activation_stats(LayerStats& stats, int64_t layer, const at::Tensor& stream_BTD);

/// Sums of these numbers over micro-batches.
class ActivationSums {
 public:
  void add(const LayerStats& stats);
  std::vector<double> values() const;  ///< to be summed over ranks
  /// `sums` over the divisor under activ_fraction_zero/layer_NNN, activ_mean/layer_NNN and activ_stdev/layer_NNN.
  /// @param sums     values(), summed over ranks
  /// @param divisor  micro-batches of all ranks
  std::vector<std::pair<std::string, double>> tagged(const std::vector<double>& sums, int64_t divisor) const;

 private:
  std::map<std::pair<std::string, int64_t>, double> sums_;  // by tag and layer
};

}  // namespace ballast
