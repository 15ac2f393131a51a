// SPDX-License-Identifier: Apache-2.0
// One line on a terminal that says how far a run is and how long it will take.
#pragma once

#include <cstdint>
#include <string>

namespace ballast {

/// What the line shows.
struct ProgressNumbers {
  int64_t done = 0;               ///< completed steps
  int64_t total = 0;              ///< steps of the run
  double seconds_left = -1;       ///< negative: not known yet
  double tokens_per_second = -1;  ///< over all devices; negative: not known
};

/// ` 42% [########------------] step 420/1000  ETA 0:03:12  12.3k tokens/s`, cut to `width` columns.
std::string progress_text(const ProgressNumbers& numbers, int width);

/// The line on stderr. Silent unless stderr is a terminal that can erase a line and CI is not set in the environment.
class ProgressLine {
 public:
  /// @param total       steps of the run
  /// @param descriptor  the terminal; 2 is stderr
  explicit ProgressLine(int64_t total, int descriptor = 2);
  ~ProgressLine() { before_line(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Draws the line. Time left follows a moving average of step_seconds.
  void update(int64_t done, double step_seconds, double tokens_per_second);
  /// Erases the line. Call before anything else is printed on the terminal.
  void before_line();

 private:
  int64_t total_;
  int descriptor_;
  bool is_shown_;
  bool is_visible_ = false;
  double mean_step_seconds_ = -1;  ///< negative before the first step
};

}  // namespace ballast
