// SPDX-License-Identifier: Apache-2.0
#include "data/row_batches.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "errors/errors.h"
#include "errors/log.h"

namespace ballast {

using nlohmann::json;

void fill_row(HostBatch& batch, int64_t index, const PackedRow& row, int32_t pad_id, const TargetRule& rule) {
  const int64_t length = batch.length;
  const int64_t num_tokens = static_cast<int64_t>(row.tokens.size());
  BALLAST_CHECK(num_tokens <= length, "a row fits the batch");
  const int64_t begin = index * length;
  std::copy(row.tokens.begin(), row.tokens.end(), batch.inputs.begin() + begin);
  std::fill_n(batch.inputs.begin() + begin + num_tokens, length - num_tokens, pad_id);
  int32_t* segment = batch.inputs_segmentation.data() + begin;
  int32_t* position = batch.inputs_position.data() + begin;
  std::fill_n(segment, length, 0);
  std::fill_n(position, length, 0);
  int64_t t = 0;
  for (size_t document = 0; document < row.document_lengths.size(); ++document) {
    for (int64_t i = 0; i < row.document_lengths[document]; ++i, ++t) {
      segment[t] = static_cast<int32_t>(document) + 1;
      position[t] = static_cast<int32_t>(i);
    }
  }
  for (t = 0; t < length; ++t) {
    const bool has_next = t + 1 < length;
    const int32_t target = has_next ? batch.inputs[begin + t + 1] : pad_id;
    const int32_t next_segment = has_next ? segment[t + 1] : 0;
    const bool counts = rule.across_documents ? next_segment != 0 && target != rule.ignored_target
                                              : next_segment != 0 && next_segment == segment[t];
    batch.targets[begin + t] = target;
    batch.targets_position[begin + t] = position[t];
    batch.targets_segmentation[begin + t] = counts ? next_segment : 0;
  }
}

RowBatches::RowBatches(std::unique_ptr<Stage<PackedRow>> rows, RowBatchSettings settings)
    : rows_(std::move(rows)), settings_(std::move(settings)) {}

std::optional<HostBatch> RowBatches::next() {
  if (has_ended_) return std::nullopt;
  HostBatch batch;
  batch.resize(settings_.rows, settings_.length);
  int64_t num_rows = 0;
  int64_t num_tokens = 0;
  while (num_rows < settings_.rows) {
    const std::optional<PackedRow> row = rows_->next();
    if (!row) break;
    num_tokens += static_cast<int64_t>(row->tokens.size());
    fill_row(batch, num_rows++, *row, settings_.pad_id, settings_.rule);
  }
  if (num_rows < settings_.rows) {
    has_ended_ = true;
    if (!settings_.keeps_rest) drop(num_rows, num_tokens);
    if (!settings_.keeps_rest || num_rows == 0) return std::nullopt;
    for (int64_t i = num_rows; i < settings_.rows; ++i) fill_row(batch, i, {}, settings_.pad_id, settings_.rule);
  }
  ++batches_done_;
  return batch;
}

void RowBatches::drop(int64_t num_rows, int64_t num_tokens) const {
  const std::string place = "data: split '" + settings_.split + "'";
  if (batches_done_ == 0) {
    throw DataError({place, "does not fill one batch",
                     std::to_string(num_tokens) + " tokens in rows of " + std::to_string(settings_.length),
                     std::to_string(settings_.rows) + " rows",
                     "a smaller batch, a shorter max_target_length, more epochs (num_epoch) or more data"});
  }
  log_info(place + " ends after " + std::to_string(batches_done_ * settings_.rows + num_rows) +
           " rows; left out, because they fill no batch of " + std::to_string(settings_.rows) +
           " rows: " + std::to_string(num_rows) + " (tokens: " + std::to_string(num_tokens) + ")");
}

void RowBatches::reset() {
  rows_->reset();
  batches_done_ = 0;
  has_ended_ = false;
}

json RowBatches::state() const {
  return {{"settings", settings_.settings},
          {"rows", rows_->state()},
          {"batches_done", batches_done_},
          {"has_ended", has_ended_}};
}

void RowBatches::load_state(const json& state) {
  if (state.at("settings") != settings_.settings) {
    throw DataError({"data: split '" + settings_.split + "'", "the saved position belongs to other data settings",
                     settings_.settings, state.at("settings").get<std::string>(),
                     "the old settings, or restart_data_on_resume=true"});
  }
  rows_->load_state(state.at("rows"));
  batches_done_ = state.at("batches_done");
  has_ended_ = state.at("has_ended");
}

}  // namespace ballast
