// SPDX-License-Identifier: Apache-2.0
#include "data/row_file.h"

#include "data/json_lines_file.h"
#include "data/parquet_file.h"
#include "files/file_error.h"

namespace ballast {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path) {
  if (is_compressed_name(path)) {
    throw_file_error(ErrorKind::kData, path, {"is compressed, which a later version reads", {}, {}, "unpacking it"});
  }
  throw_file_error(ErrorKind::kData, path, {"is no data file", {}, ".parquet, .jsonl, .ndjson or .json"});
}

}  // namespace

std::string Document::place() const {
  return "data: " + *file + " row " + std::to_string(row);
}

bool is_parquet_name(const std::filesystem::path& path) {
  return path.extension() == ".parquet";
}

bool is_json_lines_name(const std::filesystem::path& path) {
  const std::filesystem::path ending = path.extension();
  if (ending == ".jsonl" || ending == ".ndjson") return true;
  return ending == ".json" && path.filename() != "tokenizer.json" && path.filename() != "config.json";
}

bool is_compressed_name(const std::filesystem::path& path) {
  if (path.extension() != ".gz" && path.extension() != ".zst") return false;
  return is_parquet_name(path.stem()) || is_json_lines_name(path.stem());
}

std::unique_ptr<RowFile> open_row_file(const std::filesystem::path& path, const Column& column) {
  if (is_parquet_name(path)) return open_parquet(path, column);
  if (is_json_lines_name(path)) return open_json_lines(path, column);
  refuse(path);
}

TableSummary summarize_table(const std::filesystem::path& path) {
  if (is_parquet_name(path)) return summarize_parquet(path);
  if (is_json_lines_name(path)) return summarize_json_lines(path);
  refuse(path);
}

}  // namespace ballast
