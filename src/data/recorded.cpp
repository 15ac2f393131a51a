// SPDX-License-Identifier: Apache-2.0
#include "data/recorded.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/token_rows.h"
#include "errors/errors.h"
#include "files/file_error.h"

namespace ballast {

RecordedSource::RecordedSource(const RecordedSettings& settings)
    : settings_(settings), file_(settings.path, ErrorKind::kData) {
  tokens_ = read("batches");
  num_steps_ = file_.at("batches").shape[0];
  if (file_.find("segments") != nullptr) {
    segments_ = read("segments");
    if (segments_.size() != tokens_.size()) {
      throw_file_error(ErrorKind::kData, settings_.path,
                       {"tensors 'segments' and 'batches' differ in shape", file_.at("segments").description(),
                        file_.at("batches").description()});
    }
  }
  check_values();
}

std::span<const int32_t> RecordedSource::read(const char* name) const {
  const StoredTensor& tensor = file_.at(name);
  const std::vector<int64_t>& shape = tensor.shape;
  if (tensor.type != StoredType::kI32 || shape.size() != 3 || shape[0] < 1 || shape[1] != settings_.rows ||
      shape[2] != settings_.length + 1) {
    throw_file_error(ErrorKind::kData, settings_.path,
                     {std::string("tensor '") + name + "' does not fit the run", tensor.description(),
                      "I32 [steps >= 1, " + std::to_string(settings_.rows) + ", " +
                          std::to_string(settings_.length + 1) + "] (rows of a global batch, max_target_length + 1)"});
  }
  const std::span<const std::byte> bytes = file_.bytes(name);
  return {reinterpret_cast<const int32_t*>(bytes.data()), bytes.size() / sizeof(int32_t)};
}

void RecordedSource::check_values() const {
  const int64_t row_tokens = settings_.length + 1;
  const auto place = [&](size_t i) {
    const int64_t row = static_cast<int64_t>(i) / row_tokens;
    return "data: " + settings_.path.string() + " step " + std::to_string(row / settings_.rows) + " row " +
           std::to_string(row % settings_.rows) + " position " + std::to_string(static_cast<int64_t>(i) % row_tokens);
  };
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i] < 0 || tokens_[i] >= settings_.vocab_size) fail_token_id(place(i), tokens_[i], settings_.vocab_size);
  }
  for (size_t i = 0; i < segments_.size(); ++i) {
    if (segments_[i] >= 0) continue;
    throw DataError({place(i), "a segment number is negative", std::to_string(segments_[i]), "0 or more", ""});
  }
}

std::optional<HostBatch> RecordedSource::next() {
  if (step_ == num_steps_) return std::nullopt;
  const auto row_tokens = static_cast<size_t>(settings_.length + 1);
  const std::vector<int32_t> one_document(row_tokens, 1);
  HostBatch batch;
  batch.resize(settings_.rows, settings_.length);
  for (int64_t row = 0; row < settings_.rows; ++row) {
    const size_t begin = static_cast<size_t>(step_ * settings_.rows + row) * row_tokens;
    fill_row_from_tokens(
        batch, row, tokens_.subspan(begin, row_tokens),
        segments_.empty() ? std::span<const int32_t>(one_document) : segments_.subspan(begin, row_tokens));
  }
  ++step_;
  return batch;
}

nlohmann::json RecordedSource::state() const {
  return {{"step", step_}, {"steps", num_steps_}};
}

void RecordedSource::load_state(const nlohmann::json& state) {
  if (state.at("steps") != num_steps_) {
    throw_file_error(ErrorKind::kData, settings_.path,
                     {"has another number of steps than when the position was saved", std::to_string(num_steps_),
                      state.at("steps").dump()});
  }
  step_ = state.at("step");
}

}  // namespace ballast
