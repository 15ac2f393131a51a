// SPDX-License-Identifier: Apache-2.0
// When a run writes checkpoints, and which one it goes on from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/checkpoint_saver.h"
#include "metrics/writer.h"
#include "train/run_state.h"

namespace ballast {

struct Config;

class RunCheckpoints {
 public:
  /// With enable_checkpointing: locks the run's folder and removes what a killed program left there.
  /// @throws CheckpointError when another program trains into it
  RunCheckpoints(const Config& config, const RunParts& parts);

  /// Fills the parts: from the newest usable checkpoint of the run; else from load_full_state_path; else as a new run
  /// (set_first_weights).
  /// @return the first step to train
  /// @throws CheckpointError, DataError; ConfigError when that step is not below `steps`
  int64_t start();

  /// Must be called before weights, moments or buffers change.
  void before_update();

  /// Begins a save if one is due after `step`, with the metrics of the step on disk first.
  /// @throws CheckpointError that an earlier save met
  void after_step(int64_t step, MetricsWriter& metrics);
  /// Begins a save after `step` unless there is one of it.
  void save(int64_t step, MetricsWriter& metrics);
  /// A line on a save that has ended. @throws CheckpointError that it met
  std::optional<std::string> poll();
  /// Waits for the save in flight.
  std::optional<std::string> finish();
  bool is_on() const { return saver_ != nullptr; }

 private:
  bool is_due(int64_t step) const;
  int64_t first_step_after(int64_t step, const std::string& source) const;

  const Config& config_;
  RunParts parts_;
  std::unique_ptr<FolderLock> lock_;
  std::unique_ptr<CheckpointSaver> saver_;
  int64_t saved_step_ = -1;
};

}  // namespace ballast
