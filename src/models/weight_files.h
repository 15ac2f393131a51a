// SPDX-License-Identifier: Apache-2.0
// The weights of a model on disk, one tensor at a time: from a checkpoint or a Hugging Face folder into the other.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/snapshot.h"
#include "files/safetensors.h"
#include "spec/decoder_spec.h"

namespace ballast {

class WeightFiles {
 public:
  virtual ~WeightFiles() = default;
  /// Name, type and shape of each tensor, in the order of the model.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  /// The values, in the stored type. @throws CheckpointError for damage
  virtual at::Tensor read(const StoredTensor& tensor) const = 0;

 protected:
  explicit WeightFiles(std::vector<StoredTensor> tensors) : tensors_(std::move(tensors)) {}

 private:
  std::vector<StoredTensor> tensors_;
};

/// The weights of a Hugging Face folder as a checkpoint names and packs them. @throws CheckpointError as
/// check_hf_weights()
std::unique_ptr<WeightFiles> open_hf_weight_files(const std::filesystem::path& folder, const DecoderSpec& spec);
/// All tensors of a folder, whatever the model.
std::unique_ptr<WeightFiles> open_hf_weight_files(const std::filesystem::path& folder);
/// Parameters and buffers of a checkpoint as a Hugging Face folder names them. The checkpoint must outlive the result;
/// moments stay behind.
/// @throws CheckpointError as check_checkpoint_weights()
std::unique_ptr<WeightFiles> open_checkpoint_weight_files(const CheckpointReader& reader, const DecoderSpec& spec);

struct HfWriteOptions {
  std::optional<StoredType> type;               ///< of floating tensors; nothing: as they are
  uint64_t max_shard_bytes = 5'000'000'000ULL;  ///< a tensor that is larger has a file of its own
};

/// Writes model.safetensors into `folder`, or shards and their index. Values are rounded to nearest, ties to even.
/// @return number of bytes of all tensors
uint64_t write_hf_weights(const std::filesystem::path& folder, const WeightFiles& weights,
                          const HfWriteOptions& options);

/// The tensors as a checkpoint holds them: floating ones as fp32 masters, made while they are written. `weights` must
/// outlive the result.
std::vector<SnapshotTensor> master_tensors(const WeightFiles& weights);

}  // namespace ballast
