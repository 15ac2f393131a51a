// SPDX-License-Identifier: Apache-2.0
#include "data/row_file.h"

#include "data/byte_stream.h"
#include "data/json_lines_file.h"
#include "data/parquet_file.h"
#include "data/text_file.h"
#include "files/file_error.h"

namespace ballast {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path) {
  if (is_parquet_name(uncompressed_name(path))) {
    throw_file_error(ErrorKind::kData, path, {"is a Parquet file compressed as a whole", {}, {}, "unpacking it"});
  }
  throw_file_error(ErrorKind::kData, path, {"is no data file", {}, kDataEndings});
}

}  // namespace

std::string Document::place() const {
  return "data: " + *file + " row " + std::to_string(row);
}

bool is_parquet_name(const std::filesystem::path& path) {
  return path.extension() == ".parquet";
}

bool is_json_lines_name(const std::filesystem::path& path) {
  const std::filesystem::path name = uncompressed_name(path).filename();
  const std::filesystem::path ending = name.extension();
  if (ending == ".jsonl" || ending == ".ndjson") return true;
  return ending == ".json" && name != "tokenizer.json" && name != "config.json";
}

bool is_text_name(const std::filesystem::path& path) {
  return uncompressed_name(path).extension() == ".txt";
}

std::unique_ptr<RowFile> open_row_file(const std::filesystem::path& path, const Column& column) {
  if (is_parquet_name(path)) return open_parquet(path, column);
  if (is_json_lines_name(path)) return open_json_lines(path, column);
  if (is_text_name(path)) return open_text(path, column);
  refuse(path);
}

TableSummary summarize_table(const std::filesystem::path& path) {
  if (is_parquet_name(path)) return summarize_parquet(path);
  if (is_json_lines_name(path)) return summarize_json_lines(path);
  if (is_text_name(path)) return summarize_text(path);
  refuse(path);
}

}  // namespace ballast
