// SPDX-License-Identifier: Apache-2.0
// Records as JSON lines: one object a record, full precision.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "metrics/output_file.h"
#include "metrics/record.h"

namespace ballast {

/// {"kind":..., "step":..., "run_name":..., then every scalar under its tag}, without line break. A value that is not
/// finite is null, and a last key "non_finite" holds its text by tag: {"learning/loss":"nan"}.
std::string json_line(const Record& record, const std::string& run_name);

/// A whole line of a file of records.
struct RecordLine {
  std::string kind;
  int64_t step = 0;
  std::string text;  ///< without line break
};

/// The lines of `first_step` and later steps, in the order of the file; none where there is no such file.
std::vector<RecordLine> record_lines_from(const std::filesystem::path& path, int64_t first_step);

/// Rewrites a file of records without those of `resume_from_step` and later steps, and without a last line that a
/// killed run left half-written; a damaged line elsewhere is dropped with a warning. The file is replaced by rename, so
/// that a crash here loses nothing. Where there is no such file nothing happens.
/// @throws DataError where the file cannot be replaced
void drop_records(const std::filesystem::path& path, int64_t resume_from_step);

/// Appends records to one file.
class JsonLines {
 public:
  /// Without `resume_from_step` the file starts empty, with it drop_records() comes first.
  /// @throws DataError where the file cannot be opened or written
  JsonLines(const std::filesystem::path& path, std::string run_name, std::optional<int64_t> resume_from_step);
  void write(const Record& record);
  void flush() { file_.flush(); }
  void sync() { file_.sync(); }
  void close() { file_.close(); }

 private:
  std::string run_name_;
  OutputFile file_;
};

}  // namespace ballast
