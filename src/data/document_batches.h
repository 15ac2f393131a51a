// SPDX-License-Identifier: Apache-2.0
// Documents of a list of files in batches that are worth several threads, read ahead by one.
#pragma once

#include <filesystem>
#include <future>
#include <vector>

#include "data/document_reader.h"

namespace ballast {

/// Reads one batch while the caller works on the one before.
class DocumentBatches {
 public:
  /// @throws DataError as DocumentReader
  explicit DocumentBatches(DocumentFiles files);
  /// The next documents, a few MB of text or some ten thousand rows; none at the end.
  std::vector<Document> next();

 private:
  std::vector<Document> read();

  DocumentReader reader_;
  std::future<std::vector<Document>> ahead_;  // its destructor waits, so it must go before what it reads from
};

}  // namespace ballast
