// SPDX-License-Identifier: Apache-2.0
#include "data/json_lines_file.h"

#include <nlohmann/json.hpp>

#include "data/line_reader.h"
#include "errors/errors.h"
#include "files/file_error.h"
#include "files/json_text.h"

namespace ballast {
namespace {

using nlohmann::json;

constexpr const char* kUnrollArray = "writing each element of the array on its own line";

/// The next line that is not empty.
bool next_row(LineReader& reader, std::string_view& line) {
  while (reader.next(line)) {
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) return true;
  }
  return false;
}

/// "column 10: ...": the library's words without its names for the fault and the line it counts itself.
std::string reason_of(const json::exception& error) {
  std::string reason = error.what();
  for (const std::string& front : {std::string("parse error: "), std::string("parse error at line 1, ")}) {
    while (reason.starts_with("[json.exception")) reason.erase(0, reason.find("] ") + 2);
    if (reason.starts_with(front)) reason.erase(0, front.size());
  }
  return reason;
}

json parse_line(const std::string& file, const LineReader& reader, std::string_view line) {
  const std::string where = "data: " + file + ":" + std::to_string(reader.line_number());
  json row;
  try {
    row = parse_json(line);
  } catch (const json::exception& error) {
    throw DataError({where, "is not a JSON line (" + reason_of(error) + ")", "", "one JSON object a line",
                     line.front() == '[' ? kUnrollArray : ""});
  }
  if (!row.is_object()) {
    throw DataError(
        {where, "is not a JSON object", row.type_name(), "one JSON object a line", row.is_array() ? kUnrollArray : ""});
  }
  return row;
}

class JsonLinesFile : public RowFile {
 public:
  JsonLinesFile(const std::filesystem::path& path, const Column& column)
      : name_(std::make_shared<const std::string>(path.string())), column_(column), reader_(path) {
    std::string_view line;
    if (next_row(reader_, line)) check_columns(path, parse_line(*name_, reader_, line));
    reader_.rewind();
  }

  bool next(std::optional<Document>& document) override {
    document.reset();
    std::string_view line;
    if (!next_row(reader_, line)) return false;
    const int64_t row_index = row_++;
    json row = parse_line(*name_, reader_, line);
    const auto value = row.find(column_.name);
    if (value == row.end() || value->is_null()) return true;
    document.emplace();
    document->file = name_;
    document->row = row_index;
    if (column_.holds_ids) {
      document->ids = read_ids(*value, *document);
    } else if (value->is_string()) {
      const auto text = std::make_shared<const std::string>(std::move(value->get_ref<std::string&>()));
      document->text = *text;
      document->owner = text;
    } else {
      throw DataError(
          {document->place(), "column '" + column_.name + "' does not hold text", value->type_name(), "a string", ""});
    }
    return true;
  }

  void seek(int64_t row) override {
    reader_.rewind();
    std::string_view line;
    for (row_ = 0; row_ < row && next_row(reader_, line);) ++row_;
  }

 private:
  void check_columns(const std::filesystem::path& path, const json& row) const {
    if (row.contains(column_.name)) return;
    std::string names;
    for (const auto& [name, value] : row.items()) names += (names.empty() ? "" : ", ") + name;
    throw_file_error(ErrorKind::kData, path, {"has no column '" + column_.name + "'", {}, "one of: " + names});
  }

  std::vector<int32_t> read_ids(const json& value, const Document& document) const {
    std::vector<int32_t> ids;
    bool is_list = value.is_array();
    for (size_t i = 0; is_list && i < value.size(); ++i) {
      is_list = value[i].is_number_integer() && value[i] >= 0 && value[i] <= INT32_MAX;
      if (is_list) ids.push_back(value[i].get<int32_t>());
    }
    if (!is_list) {
      throw DataError({document.place(), "column '" + column_.name + "' does not hold token ids", value.type_name(),
                       "a list of integers from 0 to 2147483647", ""});
    }
    return ids;
  }

  std::shared_ptr<const std::string> name_;
  Column column_;
  LineReader reader_;
  int64_t row_ = 0;
};

}  // namespace

std::unique_ptr<RowFile> open_json_lines(const std::filesystem::path& path, const Column& column) {
  return std::make_unique<JsonLinesFile>(path, column);
}

TableSummary summarize_json_lines(const std::filesystem::path& path) {
  LineReader reader(path);
  TableSummary summary;
  summary.format = "JSON lines";
  std::string_view line;
  while (next_row(reader, line)) {
    if (summary.rows++ > 0) continue;
    const json row = parse_line(path.string(), reader, line);
    for (const auto& [name, value] : row.items()) {
      summary.columns.emplace_back(name, value.type_name());
      summary.first_row.push_back(value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
  return summary;
}

}  // namespace ballast
