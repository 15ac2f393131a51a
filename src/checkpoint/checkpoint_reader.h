// SPDX-License-Identifier: Apache-2.0
// Reads a checkpoint and believes nothing that its checksums do not confirm.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/manifest.h"

namespace ballast {

/// Where a tensor's bytes go: row-major, as many as the whole tensor has.
struct TensorTarget {
  const ManifestTensor* entry = nullptr;
  std::span<std::byte> bytes;
};

class CheckpointReader {
 public:
  /// Checks the marker, the manifest, the size of every file and the table of each tensor file.
  /// @throws CheckpointError naming the file at fault
  explicit CheckpointReader(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }

  /// The text of a file, checked. @throws CheckpointError: absent, or not what was written
  std::string document(std::string_view name) const;

  /// Reads tensors with all processors, each byte once, and checks them. Targets are garbage after an error.
  /// @throws CheckpointError naming file and tensor
  void read(const std::vector<TensorTarget>& targets) const;

  /// Reads and checks everything there is.
  void verify() const;

 private:
  class DataFile;
  void open_tensor_files();
  void read_piece(const ManifestTensor& entry, const TensorPiece& piece, std::span<std::byte> whole) const;

  std::filesystem::path folder_;
  Manifest manifest_;
  std::vector<std::shared_ptr<DataFile>> files_;  // parallel to manifest_.files; null for documents
};

}  // namespace ballast
