// SPDX-License-Identifier: Apache-2.0
// Reads a checkpoint and believes nothing that its checksums do not confirm.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/manifest.h"
#include "errors/errors.h"

namespace ballast {

/// The checkpoint on disk is not what was written: cut off, changed, unreadable, without its marker. An older one may
/// still be good.
class DamagedCheckpointError : public CheckpointError {
 public:
  using CheckpointError::CheckpointError;
};

/// Where a tensor's bytes go: row-major, as many as the whole tensor has.
struct TensorTarget {
  const ManifestTensor* entry = nullptr;
  std::span<std::byte> bytes;
};

class CheckpointReader {
 public:
  /// Checks the marker, the manifest, the size of every file and the table of each tensor file.
  /// @throws DamagedCheckpointError naming the file at fault; CheckpointError for a format that is not ours
  explicit CheckpointReader(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }
  /// Null when there is no tensor of this name.
  const ManifestTensor* find(const std::string& name) const;

  /// The text of a file, checked. @throws DamagedCheckpointError
  std::string document(std::string_view name) const;

  /// Reads tensors with all processors, each byte once, and checks them. Targets are garbage after an error.
  /// @throws DamagedCheckpointError naming file and tensor
  void read(const std::vector<TensorTarget>& targets) const;

  /// Reads and checks everything there is. @throws DamagedCheckpointError
  void verify() const;

 private:
  class DataFile;
  void open_tensor_files();
  std::string checked_document(std::string_view name) const;
  void read_piece(const ManifestTensor& entry, const TensorPiece& piece, std::span<std::byte> whole) const;

  std::filesystem::path folder_;
  Manifest manifest_;
  std::unordered_map<std::string, size_t> index_;  // into manifest_.tensors
  std::vector<std::shared_ptr<DataFile>> files_;   // parallel to manifest_.files; null for documents
};

/// Calls `use` with the newest checkpoint of a run, by number. One that is damaged, as opening it or `use` finds by
/// DamagedCheckpointError, is passed over with a line that says why. Other errors come through.
/// @return the step; nothing if `root` has no checkpoint at all
/// @throws CheckpointError when there are some and all are damaged
std::optional<int64_t> use_newest_checkpoint(const std::filesystem::path& root,
                                             const std::function<void(const CheckpointReader&)>& use);

}  // namespace ballast
