// SPDX-License-Identifier: Apache-2.0
#include "data/batch_filters.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "errors/errors.h"

namespace ballast {

using nlohmann::json;

RowBlockSource::RowBlockSource(std::unique_ptr<BatchSource> source, int64_t rank, int64_t count)
    : source_(std::move(source)), rank_(rank), count_(count) {}

std::optional<HostBatch> RowBlockSource::next() {
  std::optional<HostBatch> batch = source_->next();
  if (!batch) return batch;
  BALLAST_CHECK(batch->rows % count_ == 0, "the rows of a batch divide over the ranks");
  const int64_t num_rows = batch->rows / count_;
  const int64_t begin = rank_ * num_rows * batch->length;
  const int64_t end = begin + num_rows * batch->length;
  for (auto* array : batch->arrays()) {
    *array = std::vector<int32_t>(array->begin() + begin, array->begin() + end);
  }
  batch->rows = num_rows;
  return batch;
}

json RowBlockSource::state() const {
  return source_->state();
}
void RowBlockSource::load_state(const json& state) {
  source_->load_state(state);
}

RepeatFirstSource::RepeatFirstSource(std::unique_ptr<BatchSource> source) : source_(std::move(source)) {}

std::optional<HostBatch> RepeatFirstSource::next() {
  if (!first_) first_ = source_->next();
  return first_;
}

json RepeatFirstSource::state() const {
  return json::object();
}
void RepeatFirstSource::load_state(const json&) {}

EndlessPaddingSource::EndlessPaddingSource(std::unique_ptr<BatchSource> source, int64_t rows, int64_t length)
    : source_(std::move(source)) {
  padding_.resize(rows, length);
}

std::optional<HostBatch> EndlessPaddingSource::next() {
  std::optional<HostBatch> batch = source_->next();
  return batch ? std::move(batch) : padding_;
}

json EndlessPaddingSource::state() const {
  return source_->state();
}
void EndlessPaddingSource::load_state(const json& state) {
  source_->load_state(state);
}

}  // namespace ballast
