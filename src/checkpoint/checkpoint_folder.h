// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a run in their folder: which there are, who may write, which may go.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace ballast {

/// Steps that have a folder, ascending, complete or not; none where `root` does not exist.
std::vector<int64_t> checkpoint_steps(const std::filesystem::path& root);

/// Whether the marker of a finished checkpoint is there. Its contents may still be damaged.
bool has_complete_marker(const std::filesystem::path& checkpoint);

/// Whether `path` is one checkpoint, finished or not, and not a folder of checkpoints.
bool is_checkpoint_folder(const std::filesystem::path& path);

/// The folder of checkpoints that `path` names: the `checkpoints` folder of a run, or itself; empty: neither.
std::filesystem::path find_checkpoints(const std::filesystem::path& path);

/// Deletes what killed programs left unfinished. Only the holder of the lock may do so.
void remove_unfinished(const std::filesystem::path& root);

/// Deletes the oldest checkpoints that have a marker until `most` are left; damaged or foreign folders stay. A folder
/// gets another name before it is deleted, so no half-deleted one is ever taken for a checkpoint.
void prune_checkpoints(const std::filesystem::path& root, int64_t most);

/// Held by the one program that writes into `root`, which is created if it is missing. Ends with the process, however
/// that ends.
class FolderLock {
 public:
  /// @throws CheckpointError: another program holds it, or the folder cannot be made
  explicit FolderLock(const std::filesystem::path& root);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int folder_ = -1;
};

}  // namespace ballast
