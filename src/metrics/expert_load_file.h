// SPDX-License-Identifier: Apache-2.0
// The expert load of a run in a file of its own: JSON lines, one a layer and step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "metrics/expert_load.h"
#include "metrics/output_file.h"

namespace ballast {

/// {"step":..., "layer":..., "routing":"top_k" or "hash", "counts":[...]}, and "bias":[...] where there is one, without
/// line break. A bias has the fewest digits that give it back in float32, or in double where it is no float32.
std::string load_line(int64_t step, const LayerLoad& load);

/// Keeps the first step of the run, every step divisible by the period, and the last one.
///
/// Which step is the last shows only at the end, so the file carries the newest step after every flush, and the next
/// write takes it out again where it is none of the other two. A file thus looks like that of a run that ended there,
/// and that of a resumed run in the end like that of a run that never stopped.
class ExpertLoadFile {
 public:
  /// Without `resume_from_step` a file of that name is removed, with it drop_records() comes first.
  /// The file appears with the first record.
  /// @throws DataError where the file cannot be replaced; the members where it cannot be written
  ExpertLoadFile(std::filesystem::path path, int64_t period, std::optional<int64_t> resume_from_step);
  /// Loads of all layers with experts, by ascending step. No layers: nothing happens.
  void write(int64_t step, std::vector<LayerLoad> loads);
  void flush();
  /// Flushes and waits until the disk has it.
  void sync();
  void close();

 private:
  void append(int64_t step, const std::vector<LayerLoad>& loads);
  void append_newest();

  std::filesystem::path path_;
  int64_t period_;
  std::optional<OutputFile> file_;
  uint64_t num_bytes_ = 0;    ///< of the file, buffered ones included
  uint64_t num_settled_ = 0;  ///< bytes before the lines that the next write takes out
  int64_t newest_step_ = 0;
  std::vector<LayerLoad> newest_loads_;  ///< not in the file yet; empty: none
};

}  // namespace ballast
