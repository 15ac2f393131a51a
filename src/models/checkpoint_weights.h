// SPDX-License-Identifier: Apache-2.0
// Parameters and buffers of a decoder to and from a checkpoint.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/snapshot.h"
#include "models/decoder.h"

namespace ballast {

/// Names in the checkpoint of the moments that belong to a parameter.
inline constexpr const char* kFirstMomentPrefix = "mu/";
inline constexpr const char* kSecondMomentPrefix = "nu/";

/// A tensor that shall be filled from a checkpoint: its own memory where type and layout allow, else through a copy.
class TensorReads {
 public:
  /// `target` keeps its type; a stored tensor of another type is converted when finish() is called.
  void add(const ManifestTensor& entry, const at::Tensor& target);
  /// Reads all of them. @throws DamagedCheckpointError
  void run(const CheckpointReader& reader);

 private:
  struct Conversion {
    at::Tensor stored, target;
  };
  std::vector<TensorTarget> targets_;
  std::vector<Conversion> conversions_;
};

/// Compares the tensors of a checkpoint with those of `decoder`. Moments are passed over.
/// @throws CheckpointError listing missing, unexpected and misshaped tensors
void check_checkpoint_weights(const Decoder& decoder, const CheckpointReader& reader);

/// Adds every parameter and buffer to `reads`. @throws CheckpointError as check_checkpoint_weights()
void add_decoder_reads(Decoder& decoder, const CheckpointReader& reader, TensorReads& reads);

/// Parameters and buffers from a checkpoint of any kind.
void load_checkpoint_weights(Decoder& decoder, const CheckpointReader& reader);

/// Parameters and buffers as they lie in memory, for a checkpoint.
std::vector<SnapshotTensor> decoder_tensors(const Decoder& decoder);

/// A tensor for a checkpoint; it shares the memory and keeps it alive.
SnapshotTensor snapshot_of(const std::string& name, const at::Tensor& tensor);

/// Weights from a checkpoint or from a folder of Hugging Face, whichever `path` is. `path` may also be the `items`
/// folder that MaxText's commands name inside a checkpoint.
/// @throws CheckpointError
void load_weights(Decoder& decoder, const std::string& path);

}  // namespace ballast
