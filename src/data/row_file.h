// SPDX-License-Identifier: Apache-2.0
// One column of a Parquet, JSON lines or plain text file, row by row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ballast {

/// A document as it stands in a file: its text, or its token ids.
struct Document {
  std::string_view text;              ///< valid as long as `owner` lives
  std::vector<int32_t> ids;           ///< filled when the column holds ids
  std::shared_ptr<const void> owner;  ///< the memory behind `text`
  std::shared_ptr<const std::string> file;
  int64_t row = 0;  ///< 0-based row of the file

  /// "data: FILE row N", for errors.
  std::string place() const;
};

/// Which column to read, and whether it holds token ids (a list of integers) or text.
struct Column {
  std::string name;
  bool holds_ids = false;
};

/// The rows of one file, in order.
class RowFile {
 public:
  virtual ~RowFile() = default;
  /// Reads the next row; a null row, or a JSON line without the column, leaves `document` empty.
  /// @return false at the end of the file
  /// @throws DataError naming file and row: broken file, wrong type, malformed JSON, ill-formed UTF-8
  virtual bool next(std::optional<Document>& document) = 0;
  /// Goes to a 0-based row; the number of rows is the end. Files of lines are read again from their start, Parquet
  /// files from the row group of the row.
  virtual void seek(int64_t row) = 0;
};

/// What a file holds, for listings.
struct TableSummary {
  std::string format;  ///< "Parquet", "JSON lines" or "plain text"
  int64_t rows = 0;
  int64_t row_groups = 0;                                    ///< Parquet only
  std::vector<std::pair<std::string, std::string>> columns;  ///< name, type
  std::vector<std::string> first_row;                        ///< parallel to columns; empty when there are no rows
};

bool is_parquet_name(const std::filesystem::path& path);
/// .jsonl, .ndjson or .json, but not tokenizer.json or config.json; .gz or .zst may follow
bool is_json_lines_name(const std::filesystem::path& path);
/// .txt; .gz or .zst may follow
bool is_text_name(const std::filesystem::path& path);
/// The endings of data files, for messages.
inline constexpr const char* kDataEndings = ".parquet, or .jsonl, .ndjson, .json or .txt, also with .gz or .zst";

/// Opens by the file's ending.
/// @throws DataError: not a data file, unreadable, no such column (lists the columns)
std::unique_ptr<RowFile> open_row_file(const std::filesystem::path& path, const Column& column);
TableSummary summarize_table(const std::filesystem::path& path);

}  // namespace ballast
