// SPDX-License-Identifier: Apache-2.0
// First stage of the text pipeline: the documents of a list of files, epoch by epoch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/row_file.h"

namespace ballast {

struct DocumentFiles {
  std::vector<std::filesystem::path> paths;
  Column column;
  std::string split;            ///< for messages
  bool shuffles_files = false;  ///< a new file order each epoch; else the order of `paths`
  uint64_t seed = 0;            ///< epoch e orders by seed + e
};

/// Where a DocumentReader stands.
struct DocumentPosition {
  int64_t epoch = 0;
  int64_t file = 0;  ///< place in the epoch's file order
  int64_t row = 0;   ///< rows of that file already read, null rows included
};

/// Reads one column of all files. Null rows are left out and counted; one info line an epoch says how many.
class DocumentReader {
 public:
  /// Opens every file once, so that a missing column or a broken file shows at the start.
  explicit DocumentReader(DocumentFiles files);

  /// The next document of the epoch, or nothing at its end.
  std::optional<Document> next();
  /// Goes to the first document of an epoch.
  void begin_epoch(int64_t epoch) { seek({.epoch = epoch, .file = 0, .row = 0}); }

  const DocumentPosition& position() const { return position_; }
  void seek(const DocumentPosition& position);

  /// Number and sizes of the files as one value: a saved position means nothing for other files.
  const std::string& fingerprint() const { return fingerprint_; }
  const std::string& split() const { return files_.split; }
  /// "train.jsonl" or "train.jsonl and 3 more files", for messages.
  std::string files_text() const;

 private:
  void order_files();
  void report_null_rows();

  DocumentFiles files_;
  std::string fingerprint_;
  DocumentPosition position_;
  std::vector<size_t> order_;  // of this epoch
  std::unique_ptr<RowFile> open_file_;
  int64_t null_rows_ = 0;  // seen since the epoch began or the last seek
};

}  // namespace ballast
