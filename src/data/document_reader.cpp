// SPDX-License-Identifier: Apache-2.0
#include "data/document_reader.h"

#include <numeric>
#include <utility>

#include "data/random.h"
#include "errors/log.h"

namespace ballast {
namespace {

/// "2 files, 1b5c3f..." from names and sizes (FNV-1a, 64 bits).
std::string fingerprint_of(const std::vector<std::filesystem::path>& paths) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto absorb = [&](const std::string& text) {
    for (const unsigned char byte : text + '\n') hash = (hash ^ byte) * 0x100000001b3;
  };
  for (const std::filesystem::path& path : paths) {
    absorb(path.filename().string());
    absorb(std::to_string(std::filesystem::file_size(path)));
  }
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(hash));
  return std::to_string(paths.size()) + " files, " + digits;
}

}  // namespace

DocumentReader::DocumentReader(DocumentFiles files) : files_(std::move(files)) {
  for (const std::filesystem::path& path : files_.paths) open_row_file(path, files_.column);
  fingerprint_ = fingerprint_of(files_.paths);
  order_files();
}

std::string DocumentReader::files_text() const {
  const size_t more = files_.paths.size() - 1;
  return files_.paths.front().string() + (more > 0 ? " and " + std::to_string(more) + " more files" : "");
}

void DocumentReader::order_files() {
  order_.resize(files_.paths.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  if (!files_.shuffles_files) return;
  DataRandom(DataStream::kFileOrder, {files_.seed + static_cast<uint64_t>(position_.epoch)}).shuffle(order_);
}

std::optional<Document> DocumentReader::next() {
  while (position_.file < static_cast<int64_t>(order_.size())) {
    if (open_file_ == nullptr) {
      open_file_ = open_row_file(files_.paths[order_[static_cast<size_t>(position_.file)]], files_.column);
      if (position_.row > 0) open_file_->seek(position_.row);
    }
    std::optional<Document> document;
    while (open_file_->next(document)) {
      ++position_.row;
      if (document) return document;
      ++null_rows_;
    }
    open_file_.reset();
    ++position_.file;
    position_.row = 0;
  }
  report_null_rows();
  return std::nullopt;
}

void DocumentReader::report_null_rows() {
  if (null_rows_ == 0) return;
  log_info("data: split '" + files_.split + "': " + std::to_string(null_rows_) + " rows without a value in column '" +
           files_.column.name + "' were left out");
  null_rows_ = 0;
}

void DocumentReader::seek(const DocumentPosition& position) {
  position_ = position;
  open_file_.reset();
  null_rows_ = 0;
  order_files();
}

}  // namespace ballast
