// SPDX-License-Identifier: Apache-2.0
#include "data/packing.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "errors/errors.h"

namespace ballast {

using nlohmann::json;

namespace {

json rows_to_json(const std::deque<PackedRow>& rows) {
  json list = json::array();
  for (const PackedRow& row : rows) list.push_back({{"tokens", row.tokens}, {"lengths", row.document_lengths}});
  return list;
}

std::deque<PackedRow> rows_from_json(const json& list) {
  std::deque<PackedRow> rows;
  for (const json& row : list) {
    rows.push_back({row.at("tokens").get<std::vector<int32_t>>(), row.at("lengths").get<std::vector<int64_t>>()});
  }
  return rows;
}

}  // namespace

Packer::Packer(std::unique_ptr<Stage<std::vector<int32_t>>> pieces, const PackingSettings& settings)
    : pieces_(std::move(pieces)), settings_(settings) {
  BALLAST_CHECK(settings_.row_length > 0 && settings_.open_rows > 0, "rows hold tokens");
}

std::optional<PackedRow> Packer::next() {
  while (closed_.empty() && !has_ended_) {
    const std::optional<std::vector<int32_t>> piece = pieces_->next();
    if (piece) {
      place(*piece);
    } else {
      has_ended_ = true;
      closed_.swap(open_);
    }
  }
  if (closed_.empty()) return std::nullopt;
  PackedRow row = std::move(closed_.front());
  closed_.pop_front();
  return row;
}

bool Packer::has_room(const PackedRow& row, size_t num_tokens) const {
  if (static_cast<int64_t>(row.tokens.size() + num_tokens) > settings_.row_length) return false;
  return settings_.max_documents < 0 || static_cast<int64_t>(row.document_lengths.size()) < settings_.max_documents;
}

void Packer::append(PackedRow& row, const std::vector<int32_t>& piece) const {
  row.tokens.insert(row.tokens.end(), piece.begin(), piece.end());
  row.document_lengths.push_back(static_cast<int64_t>(piece.size()));
}

void Packer::close(std::deque<PackedRow>::iterator row) {
  closed_.push_back(std::move(*row));
  open_.erase(row);
}

void Packer::place(const std::vector<int32_t>& piece) {
  BALLAST_CHECK(!piece.empty() && static_cast<int64_t>(piece.size()) <= settings_.row_length, "a piece fits a row");
  auto row = std::find_if(open_.begin(), open_.end(), [&](const PackedRow& r) { return has_room(r, piece.size()); });
  if (row == open_.end()) {
    if (static_cast<int64_t>(open_.size()) == settings_.open_rows) {
      close(std::max_element(open_.begin(), open_.end(),
                             [](const PackedRow& a, const PackedRow& b) { return a.tokens.size() < b.tokens.size(); }));
    }
    open_.emplace_back();
    row = std::prev(open_.end());
  }
  append(*row, piece);
  if (!has_room(*row, 1)) close(row);
}

void Packer::reset() {
  pieces_->reset();
  open_.clear();
  closed_.clear();
  has_ended_ = false;
}

json Packer::state() const {
  return {{"pieces", pieces_->state()},
          {"open", rows_to_json(open_)},
          {"closed", rows_to_json(closed_)},
          {"has_ended", has_ended_}};
}

void Packer::load_state(const json& state) {
  pieces_->load_state(state.at("pieces"));
  open_ = rows_from_json(state.at("open"));
  closed_ = rows_from_json(state.at("closed"));
  has_ended_ = state.at("has_ended");
}

}  // namespace ballast
