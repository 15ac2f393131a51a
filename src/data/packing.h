// SPDX-License-Identifier: Apache-2.0
// Fourth stage of the text pipeline: pieces of documents share rows.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "data/stage.h"

namespace ballast {

/// A row before padding: the tokens of its documents one after another.
struct PackedRow {
  std::vector<int32_t> tokens;
  std::vector<int64_t> document_lengths;  ///< sums to tokens.size(), none is 0
};

struct PackingSettings {
  int64_t row_length = 0;
  int64_t max_documents = -1;  ///< documents in a row; -1: no limit; 1: no packing
  int64_t open_rows = 32;      ///< rows kept open at once
};

/// First-fit packing with a bounded number of open rows. A piece goes into the oldest open row that has room for it.
/// Where none has, a new row is opened; if too many are open, the fullest one (the oldest of them at a tie) is closed
/// first. A row without room for one more token or document is closed at once. Rows leave in the order they are
/// closed; at the end of the data the open ones leave oldest first.
class Packer : public Stage<PackedRow> {
 public:
  /// `pieces` yields 1 to row_length ids each.
  Packer(std::unique_ptr<Stage<std::vector<int32_t>>> pieces, const PackingSettings& settings);

  std::optional<PackedRow> next() override;
  void reset() override;
  nlohmann::json state() const override;
  void load_state(const nlohmann::json& state) override;

 private:
  void place(const std::vector<int32_t>& piece);
  void append(PackedRow& row, const std::vector<int32_t>& piece) const;
  bool has_room(const PackedRow& row, size_t num_tokens) const;
  void close(std::deque<PackedRow>::iterator row);

  std::unique_ptr<Stage<std::vector<int32_t>>> pieces_;
  PackingSettings settings_;
  std::deque<PackedRow> open_;    // oldest first
  std::deque<PackedRow> closed_;  // waiting to leave
  bool has_ended_ = false;
};

}  // namespace ballast
