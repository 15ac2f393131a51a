// SPDX-License-Identifier: Apache-2.0
// The expert load of a run, read back from its file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "metrics/expert_load.h"

namespace ballast {

struct StepLoads {
  int64_t step = 0;
  std::vector<LayerLoad> layers;  ///< by ascending layer
};

struct LoadHistory {
  std::vector<StepLoads> steps;    ///< by ascending step, at least one; all have the same layers, routing and widths
  std::vector<std::string> notes;  ///< one sentence for each thing the reader left out
};

/// Reads a file that ExpertLoadFile wrote, also of a run that is still going on or was killed: a last line that is not
/// whole and a last step that lacks layers are left out with a note. A bias that is null reads as NaN.
/// @throws DataError with the line for any other damage; when the file is missing or holds no whole step
LoadHistory read_expert_load(const std::filesystem::path& path);

/// The file itself, or expert_load.jsonl in the folder of a run.
std::filesystem::path expert_load_path(const std::filesystem::path& run);

}  // namespace ballast
