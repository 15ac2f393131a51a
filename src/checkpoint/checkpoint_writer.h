// SPDX-License-Identifier: Apache-2.0
// Writes one checkpoint: beside its place, synced, marked, then renamed.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/snapshot.h"

namespace ballast {

/// A tensor file that is to be written.
struct CheckpointTensors {
  std::string file_name;
  std::vector<SnapshotTensor> tensors;
};

struct CheckpointContent {
  CheckpointKind kind = CheckpointKind::kTraining;
  int64_t step = 0;
  std::string config;                                          ///< of config.yml
  std::vector<std::pair<std::string, std::string>> documents;  ///< further files: name and text
  std::vector<CheckpointTensors> tensor_files;
};

/// A checkpoint on its way to disk.
class CheckpointWriter {
 public:
  /// @param target  the folder to be; one of this name that is there already is set aside as `<name>.damaged`
  CheckpointWriter(std::filesystem::path target, CheckpointContent content);

  /// Before the tensors' bytes change.
  void detach() { snapshot_->detach(); }
  uint64_t num_bytes() const { return snapshot_->num_bytes(); }
  const std::filesystem::path& target() const { return target_; }

  /// Once; may run on another thread than detach(). After a failure nothing is left behind.
  /// @throws CheckpointError naming the file
  void write();

 private:
  void write_files(const std::filesystem::path& folder);
  void write_tensors(const std::filesystem::path& folder, Manifest& manifest);
  void set_aside_old();

  std::filesystem::path target_;
  CheckpointContent content_;
  std::unique_ptr<Snapshot> snapshot_;
};

}  // namespace ballast
