// SPDX-License-Identifier: Apache-2.0
// What `ballast inspect` says of checkpoints.
#pragma once

#include <filesystem>

namespace ballast {

/// Prints what a checkpoint holds; with `verifies` after every byte has been read and found right.
/// @throws CheckpointError for one that is damaged or not complete
void inspect_checkpoint(const std::filesystem::path& folder, bool verifies);

/// Prints a line a checkpoint: step, size, state. Damage is looked for in sizes and tables, with `verifies` in every
/// byte.
/// @return whether all are good
bool inspect_checkpoints(const std::filesystem::path& root, bool verifies);

}  // namespace ballast
