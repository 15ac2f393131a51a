// SPDX-License-Identifier: Apache-2.0
#include "data/text_file.h"

#include "data/line_reader.h"
#include "data/tokenizer_utf8.h"
#include "files/file_error.h"

namespace ballast {
namespace {

constexpr const char* kTextColumn = "text";

/// The next row of a text file.
bool next_row(LineReader& reader, const std::filesystem::path& path, std::string_view& row) {
  if (!reader.next(row)) return false;
  if (row.ends_with('\r')) row.remove_suffix(1);
  for (std::string_view rest = row; !rest.empty();) {
    const Utf8Step step = utf8_step(rest);
    if (!step.valid) {
      throw_file_error(ErrorKind::kData, path.string() + ":" + std::to_string(reader.line_number()),
                       {"is not UTF-8 at byte " + std::to_string(row.size() - rest.size()) + " of the line",
                        {},
                        {},
                        "writing the file as UTF-8"});
    }
    rest.remove_prefix(step.bytes);
  }
  return true;
}

class TextFile : public RowFile {
 public:
  TextFile(const std::filesystem::path& path, const Column& column)
      : path_(path), name_(std::make_shared<const std::string>(path.string())), reader_(path) {
    if (column.holds_ids) throw_file_error(ErrorKind::kData, path, {"is plain text, which holds no token ids"});
    if (column.name != kTextColumn) {
      throw_file_error(ErrorKind::kData, path,
                       {"has no column '" + column.name + "'", {}, "text, all that plain text has"});
    }
    std::string_view first;
    next_row(reader_, path_, first);
    reader_.rewind();
  }

  bool next(std::optional<Document>& document) override {
    document.reset();
    std::string_view row;
    if (!next_row(reader_, path_, row)) return false;
    const auto text = std::make_shared<const std::string>(row);
    document = {.text = *text, .ids = {}, .owner = text, .file = name_, .row = reader_.line_number() - 1};
    return true;
  }

  void seek(int64_t row) override {
    reader_.rewind();
    std::string_view skipped;
    while (reader_.line_number() < row && reader_.next(skipped)) {
    }
  }

 private:
  std::filesystem::path path_;
  std::shared_ptr<const std::string> name_;
  LineReader reader_;
};

}  // namespace

std::unique_ptr<RowFile> open_text(const std::filesystem::path& path, const Column& column) {
  return std::make_unique<TextFile>(path, column);
}

TableSummary summarize_text(const std::filesystem::path& path) {
  LineReader reader(path);
  TableSummary summary;
  summary.format = "plain text";
  summary.columns = {{kTextColumn, "string"}};
  for (std::string_view row; next_row(reader, path, row); ++summary.rows) {
    if (summary.rows == 0) summary.first_row.emplace_back(row);
  }
  return summary;
}

}  // namespace ballast
