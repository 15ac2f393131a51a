// SPDX-License-Identifier: Apache-2.0
// The table of contents of a checkpoint. docs/checkpoint_format.md describes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "files/safetensors.h"

namespace ballast {

inline constexpr int64_t kCheckpointVersion = 1;
inline constexpr const char* kManifestName = "manifest.json";
inline constexpr const char* kCompleteName = "COMPLETE";
inline constexpr const char* kConfigName = "config.yml";
inline constexpr const char* kModelName = "model-r00000.safetensors";  ///< of rank 0

enum class CheckpointKind { kTraining, kWeights };

struct ManifestFile {
  std::string name;
  uint64_t bytes = 0;
  std::string checksum;  ///< of the header of a safetensors file, of all of another file
};

/// A box of a tensor, stored under the tensor's name in one file.
struct TensorPiece {
  size_t file = 0;             ///< index into Manifest::files
  std::vector<int64_t> begin;  ///< first index in each dimension
  std::vector<int64_t> shape;
  std::string checksum;
};

struct ManifestTensor {
  StoredTensor tensor;  ///< name, type and whole shape
  std::vector<TensorPiece> pieces;
};

struct Manifest {
  std::string program;  ///< version that wrote it
  CheckpointKind kind = CheckpointKind::kTraining;
  int64_t step = 0;  ///< last finished step
  std::string config_digest;
  std::vector<ManifestFile> files;
  std::vector<ManifestTensor> tensors;

  const ManifestFile* find_file(std::string_view name) const;
};

/// The text of manifest.json.
std::string to_json(const Manifest& manifest);

/// Reads and checks everything that can be checked without the other files: types, ranges, names without folders,
/// pieces that lie in their tensor and together have its size.
/// @param path  for messages
/// @throws CheckpointError naming `path`
Manifest parse_manifest(std::string_view text, const std::string& path);

/// "training" or "weights".
std::string_view checkpoint_kind_name(CheckpointKind kind);

}  // namespace ballast
