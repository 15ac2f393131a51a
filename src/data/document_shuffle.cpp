// SPDX-License-Identifier: Apache-2.0
#include "data/document_shuffle.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "data/random.h"
#include "errors/errors.h"

namespace ballast {

using nlohmann::json;

DocumentShuffle::DocumentShuffle(std::unique_ptr<DocumentReader> reader, const ShuffleSettings& settings)
    : reader_(std::move(reader)), settings_(settings) {}

void DocumentShuffle::fill_buffer() {
  buffer_begin_ = reader_->position();
  buffer_.clear();
  handed_out_ = 0;
  while (static_cast<int64_t>(buffer_.size()) < settings_.buffer_documents) {
    std::optional<Document> document = reader_->next();
    if (!document) break;
    buffer_.push_back(std::move(*document));
  }
  if (!settings_.is_on) return;
  const uint64_t epoch_seed = settings_.seed + static_cast<uint64_t>(buffer_begin_.epoch);
  DataRandom(DataStream::kShuffleBuffer, {epoch_seed, static_cast<uint64_t>(buffer_index_)}).shuffle(buffer_);
}

std::optional<Document> DocumentShuffle::next() {
  while (handed_out_ == buffer_.size()) {
    if (!buffer_.empty()) ++buffer_index_;
    fill_buffer();
    if (!buffer_.empty()) break;
    if (buffer_index_ == 0) {
      throw DataError({"data: split '" + reader_->split() + "'", "holds no documents", "0 in " + reader_->files_text(),
                       "1 or more", ""});
    }
    if (buffer_begin_.epoch + 1 >= settings_.num_epochs) return std::nullopt;
    reader_->begin_epoch(buffer_begin_.epoch + 1);
    buffer_index_ = 0;
  }
  return std::move(buffer_[handed_out_++]);
}

void DocumentShuffle::reset() {
  reader_->begin_epoch(0);
  buffer_.clear();
  handed_out_ = 0;
  buffer_index_ = 0;
}

json DocumentShuffle::state() const {
  const DocumentPosition& begin = buffer_.empty() ? reader_->position() : buffer_begin_;
  return {{"files", reader_->fingerprint()}, {"epoch", begin.epoch},     {"file", begin.file}, {"row", begin.row},
          {"buffer", buffer_index_},         {"handed_out", handed_out_}};
}

void DocumentShuffle::load_state(const json& state) {
  if (state.at("files") != reader_->fingerprint()) {
    throw DataError({"data: split '" + reader_->split() + "'", "the files have changed since the position was saved",
                     reader_->fingerprint(), state.at("files").get<std::string>(),
                     "the old files, or restart_data_on_resume=true"});
  }
  reader_->seek({.epoch = state.at("epoch"), .file = state.at("file"), .row = state.at("row")});
  buffer_index_ = state.at("buffer");
  buffer_.clear();
  handed_out_ = 0;
  const size_t handed_out = state.at("handed_out");
  if (handed_out == 0) return;
  fill_buffer();
  BALLAST_CHECK(handed_out <= buffer_.size(), "a saved buffer position lies in the buffer");
  handed_out_ = handed_out;
}

}  // namespace ballast
