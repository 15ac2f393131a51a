// SPDX-License-Identifier: Apache-2.0
#include "data/document_batches.h"

#include <utility>

namespace ballast {
namespace {

constexpr size_t kBatchBytes = size_t{16} << 20;
constexpr size_t kBatchDocuments = 1 << 14;

}  // namespace

DocumentBatches::DocumentBatches(DocumentFiles files) : reader_(std::move(files)) {
  ahead_ = std::async(std::launch::async, [this] { return read(); });
}

std::vector<Document> DocumentBatches::next() {
  std::vector<Document> documents = ahead_.get();
  if (documents.empty()) {
    ahead_ = std::async(std::launch::deferred, [] { return std::vector<Document>(); });
  } else {
    ahead_ = std::async(std::launch::async, [this] { return read(); });
  }
  return documents;
}

std::vector<Document> DocumentBatches::read() {
  std::vector<Document> documents;
  size_t bytes = 0;
  while (bytes < kBatchBytes && documents.size() < kBatchDocuments) {
    std::optional<Document> document = reader_.next();
    if (!document) break;
    bytes += document->text.size() + document->ids.size() * sizeof(int32_t);
    documents.push_back(*std::move(document));
  }
  return documents;
}

}  // namespace ballast
