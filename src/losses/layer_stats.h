// SPDX-License-Identifier: Apache-2.0
// What layers hand out besides their hidden states: typed, with the layer's number, never looked up by a path.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace ballast {

enum class LayerStatKind {
  kLoadBalance,          ///< weighted balance loss of a layer, scalar
  kRouterZ,              ///< weighted router z-loss of a layer, scalar
  kIndexerKl,            ///< weighted indexer loss of a layer, scalar
  kExpertCounts,         ///< choices an expert got, before any dropping, int64 [E]
  kChosenExperts,        ///< experts of each token by falling score, -1: not computed, int64 [N, K]
  kChoiceWeights,        ///< their weights, [N, K]
  kDroppedChoices,       ///< choices dropped over capacity, int64 scalar
  kActivationZeroShare,  ///< zeros in a layer's output over its elements, scalar
  kActivationMean,       ///< mean of a layer's output, scalar
  kActivationStdev,      ///< population deviation of a layer's output, scalar
};

/// One layer's term of one micro-batch. Terms that carry a gradient are outputs of the block; what lands here is
/// detached and for reporting.
struct LayerStat {
  int64_t layer = 0;
  LayerStatKind kind = LayerStatKind::kLoadBalance;
  at::Tensor value;
};

/// Collector of one micro-batch. Blocks write to it only in a run that counts (BlockPass::counts), so a second run in
/// the backward pass adds nothing.
class LayerStats {
 public:
  /// @param keeps_choices  whether kChosenExperts and kChoiceWeights are wanted
  explicit LayerStats(bool keeps_choices = false) : keeps_choices_(keeps_choices) {}
  bool keeps_choices() const { return keeps_choices_; }
  void add(int64_t layer, LayerStatKind kind, const at::Tensor& value) {
    entries_.push_back({layer, kind, value.detach()});
  }
  const std::vector<LayerStat>& entries() const { return entries_; }
  /// Sum over the layers of a kind that is a scalar; 0 where there is none.
  double sum(LayerStatKind kind) const {
    double sum = 0;
    for (const LayerStat& entry : entries_) sum += entry.kind == kind ? entry.value.item<double>() : 0.0;
    return sum;
  }

 private:
  bool keeps_choices_;
  std::vector<LayerStat> entries_;
};

}  // namespace ballast
