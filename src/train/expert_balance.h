// SPDX-License-Identifier: Apache-2.0
// Expert counts of a step, the statistics made of them, and the update of the routers' selection bias.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "dist/world.h"
#include "losses/layer_stats.h"
#include "metrics/expert_load.h"
#include "metrics/train_record.h"
#include "models/decoder.h"

namespace ballast {

/// What the layers with experts report over the micro-batches of one step. Counts are whole numbers of the whole step,
/// so the bias moves once and by the same amount on every rank, however the step was cut.
class ExpertBalance {
 public:
  explicit ExpertBalance(Decoder& decoder) : decoder_(decoder) {}

  /// Forgets the step before.
  void start();
  void add(const LayerStats& stats);
  /// Sums over all ranks with different tokens. To be called once, after the last micro-batch.
  void sum(const World& world);

  /// bias_e += rate * sign(mean count - count_e) in each layer with a selection bias, sign(0) = 0.
  /// @source arXiv 2408.15664, algorithm 1
  void update_bias(double rate);

  /// Counts of each layer with the selection bias as it is now; empty for a decoder without experts.
  std::vector<LayerLoad> loads() const;
  /// moe_lb_loss, router_z_loss, moe_dropped_share and, in `more`, the tags of the loads.
  void fill(StepNumbers& numbers) const;
  /// Norms of the bias around the step's update; empty before it.
  Scalars bias_norms() const { return bias_norm_tags(updates_); }

 private:
  Decoder& decoder_;
  std::map<int64_t, std::vector<int64_t>> counts_;  // by layer
  double load_balance_ = 0, router_z_ = 0, num_dropped_ = 0;
  std::vector<BiasUpdate> updates_;  // of this step
};

}  // namespace ballast
