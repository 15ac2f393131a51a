// SPDX-License-Identifier: Apache-2.0
// `gcs_metrics`: the records of every log_period steps in a file of their own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "metrics/record.h"

namespace ballast {

/// Writes <folder>/metrics_step_<first>_to_step_<last>.txt, six digits each, with the JSON lines of the steps
/// n * period .. (n + 1) * period - 1. A file appears whole, when the next period begins or on finish().
class PeriodFiles {
 public:
  PeriodFiles(std::filesystem::path folder, std::string run_name, int64_t period);
  /// For a run that goes on at `step`: removes the files of its period and of later ones.
  /// @return the first step of the period; the lines from there on are to be written again
  int64_t reopen(int64_t step);
  /// @throws DataError where the finished period cannot be written
  void write(const Record& record);
  void write_line(int64_t step, const std::string& line);
  /// Writes the period that is not complete.
  void finish();

 private:
  std::filesystem::path folder_;
  std::string run_name_;
  int64_t period_;
  int64_t first_step_ = 0, last_step_ = 0;
  std::string pending_;
};

}  // namespace ballast
