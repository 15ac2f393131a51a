// SPDX-License-Identifier: Apache-2.0
#include "data/row_file.h"
#include "errors/errors.h"
#include "fuzz/input_file.h"
#include "fuzz/targets.h"

namespace ballast::fuzz {
namespace {

/// Rows from `first` on, up to an error.
int64_t count_rows(const std::string& path, const Column& column, int64_t first) {
  int64_t num_rows = 0;
  try {
    const std::unique_ptr<RowFile> file = open_row_file(path, column);
    file->seek(first);
    for (std::optional<Document> document; file->next(document); ++num_rows) {
      if (document) BALLAST_CHECK(document->row == first + num_rows, document->place());
    }
  } catch (const DataError&) {
  }
  return num_rows;
}

}  // namespace

/// The first byte picks the ending, the others are the file: all rows of a text and an id column, from the start and
/// from the middle, and the summary.
void json_lines(std::string_view input) {
  constexpr const char* kNames[] = {"input.jsonl", "input.jsonl.gz", "input.jsonl.zst", "input.txt"};
  // A few thousand bytes can unpack to gigabytes; that takes time and finds nothing.
  constexpr size_t kMostPackedBytes = 2000;
  if (input.empty()) return;
  const size_t kind = static_cast<unsigned char>(input.front()) % std::size(kNames);
  input.remove_prefix(1);
  if (kind == 1 || kind == 2) input = input.substr(0, kMostPackedBytes);
  const InputFile file(kNames[kind], input);
  for (const Column& column : {Column{"text", false}, Column{"ids", true}}) {
    const int64_t num_rows = count_rows(file.path(), column, 0);
    const int64_t rest = count_rows(file.path(), column, num_rows / 2);
    BALLAST_CHECK(num_rows == 0 || rest == num_rows - num_rows / 2, "seek() finds the row that next() gives");
  }
  try {
    summarize_table(file.path());
  } catch (const DataError&) {
  }
}

}  // namespace ballast::fuzz
