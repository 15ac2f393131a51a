// SPDX-License-Identifier: Apache-2.0
// Checkpoints become Hugging Face folders and the other way round.
#pragma once

#include <filesystem>
#include <optional>

#include "checkpoint/checkpoint_reader.h"
#include "config/config.h"
#include "models/weight_files.h"

namespace ballast {

/// The configuration in a checkpoint's config.yml. @throws ConfigError naming the file's line for a key or a value that
/// this version does not know; DamagedCheckpointError
Config config_of_checkpoint(const CheckpointReader& reader);

/// Writes the Hugging Face folder `to`: config.json, weights and, where the run's tokenizer is found, its files.
/// @throws ConfigError if no model type can say what the checkpoint is; CheckpointError. `to` is untouched then
void convert_to_hf(const CheckpointReader& from, const std::filesystem::path& to, const HfWriteOptions& options);

/// The same from another Hugging Face folder: other element types, other shards. Fields and tensors that Ballast does
/// not know are kept.
void convert_hf_to_hf(const std::filesystem::path& from, const std::filesystem::path& to,
                      const HfWriteOptions& options);

/// Writes the checkpoint `to`, of kind `weights`, from a Hugging Face folder.
/// @throws ConfigError for a model that is not built; CheckpointError. `to` is untouched then
void convert_to_checkpoint(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace ballast
