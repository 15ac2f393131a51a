// SPDX-License-Identifier: Apache-2.0
// Second stage of the text pipeline: shuffled documents over all epochs.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "data/document_reader.h"
#include "data/stage.h"

namespace ballast {

struct ShuffleSettings {
  bool is_on = false;
  int64_t buffer_documents = 1;  ///< hf_shuffle_buffer_size, > 0
  uint64_t seed = 0;             ///< data_shuffle_seed
  int64_t num_epochs = 1;
};

/// Reads a buffer full of documents, hands them out in a random order, reads the next buffer full. A buffer holds
/// documents of one epoch. The order of buffer b of epoch e comes from (seed + e, b) alone, so the state is a file
/// position and a count, and no document is ever saved.
class DocumentShuffle : public Stage<Document> {
 public:
  DocumentShuffle(std::unique_ptr<DocumentReader> reader, const ShuffleSettings& settings);

  /// @throws DataError naming the split when its first epoch holds no document
  std::optional<Document> next() override;
  void reset() override;
  nlohmann::json state() const override;
  void load_state(const nlohmann::json& state) override;

 private:
  void fill_buffer();

  std::unique_ptr<DocumentReader> reader_;
  ShuffleSettings settings_;
  DocumentPosition buffer_begin_;  // the reader's place before the buffer was filled
  int64_t buffer_index_ = 0;       // of the epoch; the buffer that is being handed out or filled next
  std::vector<Document> buffer_;
  size_t handed_out_ = 0;
};

}  // namespace ballast
