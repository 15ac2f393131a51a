// SPDX-License-Identifier: Apache-2.0
// Traces of the operations of chosen training steps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

namespace at {
struct RecordFunction;
}

namespace ballast {

struct Config;

/// Which steps are traced: `num_steps` from `first_step` on, and again `period` steps later; cut at `end_step`.
struct ProfileWindows {
  int64_t first_step = 0;
  int64_t num_steps = 0;  ///< 0: none
  int64_t period = 0;     ///< from one start to the next; 0: one window
  int64_t end_step = 0;   ///< first step that is not trained

  /// A trace starts before this step.
  bool starts_at(int64_t step) const;
  /// A trace ends after this step.
  bool ends_after(int64_t step) const;
};

/// Of profiler, skip_first_n_steps_for_profiler, profiler_steps, profile_periodically_period and steps. Steps are
/// skipped from `first_trained_step` on.
ProfileWindows profile_windows(const Config& config, int64_t first_trained_step);

/// Writes each window as steps_<first>_to_<last>.pt.trace.json, the Chrome trace format of Kineto: operators with
/// shapes, one mark a step. It records the operations of the calling thread and of the backward pass on a CPU.
class Profiler {
 public:
  /// Creates the folder when there is anything to trace. @throws DataError when it cannot
  Profiler(const ProfileWindows& windows, std::filesystem::path folder);
  /// Saves what a run that ends inside a window has traced, if it has finished a step of it.
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  void before_step(int64_t step);
  /// @throws DataError when the trace cannot be written
  void after_step(int64_t step);

 private:
  void start(int64_t step);
  void save();

  ProfileWindows windows_;
  std::filesystem::path folder_;
  std::optional<int64_t> start_step_;         ///< of the trace that is recorded
  int64_t last_step_ = -1;                    ///< last one that was finished
  std::unique_ptr<at::RecordFunction> mark_;  ///< of the step that runs
};

}  // namespace ballast
