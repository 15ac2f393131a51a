// SPDX-License-Identifier: Apache-2.0
// The records of a run, read back from its JSON lines and kept by tag.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "metrics/record.h"

namespace ballast {

/// A value of one step; it may be NaN or infinite.
struct SeriesPoint {
  int64_t step = 0;
  double value = 0;
};
/// Points by ascending step; steps that do not carry the tag are left out.
using Series = std::vector<SeriesPoint>;

struct RunHistory {
  std::string run_name;                 ///< of the last record
  std::map<std::string, Series> train;  ///< by tag
  Record last_train;                    ///< of the highest step; without scalars where no step was trained
  std::vector<Record> evals;            ///< by ascending step
  std::vector<std::string> notes;       ///< one sentence for each thing the reader left out

  /// The training series of `tag`; empty where no step has it.
  const Series& series(const std::string& tag) const;
};

/// Reads a file that JsonLines wrote, also of a run that is still going on or was killed: a last line that is not whole
/// is left out with a note, and so are damaged lines elsewhere, together in one note.
/// @throws DataError when the file is missing or unreadable, or holds no record
RunHistory read_run_history(const std::filesystem::path& metrics_file);

}  // namespace ballast
