// SPDX-License-Identifier: Apache-2.0
// Decides whether a step's loss and gradient norm are in line with the steps before it.
#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json_fwd.hpp>

namespace ballast {

/// Keys `skip_step_interval`, `skip_step_scaling_factor`.
struct SpikeGuardOptions {
  int64_t interval = 128;     ///< values that are looked back on
  double scaling_factor = 6;  ///< standard deviations above the mean
};

/// A value x is an outlier when not (x - mean <= scaling_factor * std), with mean and std (divisor n - 1; 0 for one
/// value) of the last `interval` values. Nothing is an outlier before max(2, interval / 2) - 1 values are known.
/// @source allenai/OLMo-core skip_step_optimizer.py; AI-Hypercomputer/maxtext optimizers.py
class SpikeGuard {
 public:
  explicit SpikeGuard(const SpikeGuardOptions& options) : options_(options) {}

  /// Whether the step may be taken. Its values become part of the history either way, so that a new level is accepted
  /// in the end. Values that are not finite are refused and never enter the history.
  bool accepts(double loss, double grad_norm);

  /// The history, for a checkpoint.
  nlohmann::json state() const;
  /// Takes a history over; of a longer one the last `interval` values. @throws CheckpointError if it is none
  void load_state(const nlohmann::json& state);

 private:
  bool is_outlier(double value, const std::deque<double>& history) const;

  SpikeGuardOptions options_;
  std::deque<double> losses_, grad_norms_;  // oldest first, equally many
};

}  // namespace ballast
