// SPDX-License-Identifier: Apache-2.0
// The training loop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "data/batch.h"
#include "metrics/console.h"
#include "metrics/progress.h"
#include "metrics/writer.h"
#include "train/data_need.h"
#include "train/profiler.h"
#include "train/run_checkpoints.h"
#include "train/setup.h"
#include "train/step.h"
#include "train/stop_signal.h"

namespace ballast {

struct Config;

/// One run: steps, evaluation, metrics. The configuration must outlive it.
class Trainer {
 public:
  /// Builds model, data and metric files. Reports sizes on stdout.
  /// @throws Error of any kind
  explicit Trainer(const Config& config);

  /// Trains until `steps`, the end of the data, `target_eval_loss` or a signal. A signal writes a checkpoint where
  /// checkpoints are on. Metrics and checkpoints are on disk when it returns or throws.
  /// @return exit code: 0, or 128 + the signal that ended the run
  /// @throws AbortedError when loss or gradient norm is not finite; the step's record is written, weights are
  /// untouched.
  ///         With abort_on_nan_loss and abort_on_inf_loss off the step is skipped instead
  int run();

 private:
  void print(const std::string& line);
  void report_start();
  /// Steps and what belongs between them, until the run ends.
  /// @return the last finished step
  int64_t train();
  /// An evaluation that was due after the step before and is not on record.
  bool makes_up_evaluation();
  void log_after_progress(const std::optional<std::string>& line);
  /// One step and its record; false when the data ended.
  bool train_one(int64_t step);
  bool evaluates_after(int64_t step) const;
  /// True when `target_eval_loss` is reached.
  bool evaluate_after(int64_t step);
  /// A loss or gradient norm that is not finite ends the run or, where the keys say so, is told on stderr.
  /// @param bad_parameter  TrainStep::first_bad_parameter()
  void check_finite(const StepNumbers& numbers, const std::string& bad_parameter);

  const Config& config_;
  std::shared_ptr<const World> world_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<BatchSource> train_source_, eval_source_;
  TrainStep step_;
  RunCheckpoints checkpoints_;
  int64_t first_step_;
  MetricsWriter writer_;
  ConsoleOptions console_;
  ProgressLine progress_;
  Profiler profiler_;
  DataNeed data_need_;
  StopSignal signal_;
  double tflops_per_step_ = 0;
};

}  // namespace ballast
