// SPDX-License-Identifier: Apache-2.0
// Saves of a run, one at a time, beside the training.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "checkpoint/checkpoint_writer.h"

namespace ballast {

class CheckpointSaver {
 public:
  /// @param root          folder of the run's checkpoints
  /// @param most_to_keep  max_num_checkpoints_to_keep; absent: all
  CheckpointSaver(std::filesystem::path root, std::optional<int64_t> most_to_keep);
  /// Waits; a failure that nobody asked for is logged.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  /// Begins to write `root/<step>`, after the save before it has ended. @throws what that save met
  void start(CheckpointContent content);
  /// Before bytes of the content change. Cheap when the save has gone far enough.
  void detach();
  bool is_busy() const { return is_busy_; }
  /// Until nothing is in flight; what the save met is told by the next call.
  void wait();
  /// Once after each save: a line that says what was written. @throws what the save met
  std::optional<std::string> poll();
  /// Waits for the save in flight. @throws what it met
  std::optional<std::string> finish();

 private:
  void run();

  std::filesystem::path root_;
  std::optional<int64_t> most_to_keep_;
  std::unique_ptr<CheckpointWriter> writer_;
  std::thread thread_;
  std::atomic<bool> is_busy_ = false;
  std::exception_ptr error_;
  std::string report_;
};

}  // namespace ballast
