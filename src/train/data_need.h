// SPDX-License-Identifier: Apache-2.0
// How fast the steps use up data, beside how fast the reader makes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ballast {

/// Measures the first steps of a run. Step 0 is left out: it warms up.
class DataNeed {
 public:
  static constexpr int kMeasuredSteps = 10;

  /// @param tokens        positions of the step's batch on this rank
  /// @param step_seconds  without the wait for the batch
  void add_step(int64_t tokens, double step_seconds);

  /// Once, after kMeasuredSteps measured steps: "data: 8.9M tokens/s ready, the step needs 7.5k tokens/s", or what to
  /// do where the reader is the slower one. Nothing before and after, and where `ready` is unknown.
  /// @param ready  tokens/s that the reader makes
  std::optional<std::string> line(std::optional<double> ready);

 private:
  int num_steps_ = 0;
  int64_t tokens_sum_ = 0;
  double seconds_sum_ = 0;
  bool is_told_ = false;
};

}  // namespace ballast
