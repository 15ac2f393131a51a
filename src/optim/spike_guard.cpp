// SPDX-License-Identifier: Apache-2.0
#include "optim/spike_guard.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "errors/errors.h"

namespace ballast {

bool SpikeGuard::is_outlier(double value, const std::deque<double>& history) const {
  const auto count = static_cast<int64_t>(history.size());
  if (count + 1 < std::max<int64_t>(2, options_.interval / 2)) return false;
  const double mean = std::accumulate(history.begin(), history.end(), 0.0) / static_cast<double>(count);
  double squares = 0;
  for (const double known : history) squares += (known - mean) * (known - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(std::max<int64_t>(1, count - 1)));
  return !(value - mean <= options_.scaling_factor * deviation);
}

bool SpikeGuard::accepts(double loss, double grad_norm) {
  if (!std::isfinite(loss) || !std::isfinite(grad_norm)) return false;
  const bool is_spike = is_outlier(loss, losses_) || is_outlier(grad_norm, grad_norms_);
  losses_.push_back(loss);
  grad_norms_.push_back(grad_norm);
  if (static_cast<int64_t>(losses_.size()) > options_.interval) {
    losses_.pop_front();
    grad_norms_.pop_front();
  }
  return !is_spike;
}

nlohmann::json SpikeGuard::state() const {
  return {{"losses", losses_}, {"grad_norms", grad_norms_}};
}

void SpikeGuard::load_state(const nlohmann::json& state) {
  std::deque<double> losses, grad_norms;
  try {
    losses = state.at("losses").get<std::deque<double>>();
    grad_norms = state.at("grad_norms").get<std::deque<double>>();
  } catch (const nlohmann::json::exception& error) {
    throw CheckpointError({.where = "spike_guard.load_state",
                           .what = std::string("not a history of losses and norms: ") + error.what(),
                           .got = {},
                           .need = {},
                           .attempt = {}});
  }
  if (losses.size() != grad_norms.size()) {
    throw CheckpointError({.where = "spike_guard.load_state",
                           .what = "losses and norms differ in number",
                           .got = std::to_string(losses.size()) + " and " + std::to_string(grad_norms.size()),
                           .need = {},
                           .attempt = {}});
  }
  while (static_cast<int64_t>(losses.size()) > options_.interval) {
    losses.pop_front();
    grad_norms.pop_front();
  }
  losses_ = std::move(losses);
  grad_norms_ = std::move(grad_norms);
}

}  // namespace ballast
