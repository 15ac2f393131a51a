// SPDX-License-Identifier: Apache-2.0
// Last stage of the text pipeline: rows get targets, masks and padding, and form batches.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "data/batch.h"
#include "data/packing.h"
#include "data/stage.h"

namespace ballast {

/// Which positions count in the loss.
struct TargetRule {
  /// False: a position counts iff it and the next one belong to one document. True (MaxText's form): iff the next one
  /// is no padding and its token is not `ignored_target`, so the last token of a document predicts the next document.
  bool across_documents = false;
  int32_t ignored_target = -1;  ///< MaxText leaves BOS out; -1: none
};

/// Writes `row` into row `index` of `batch`: tokens, then `pad_id`; segments 1, 2, ...; positions from 0 in each
/// document. The target is the next token of the row, `pad_id` at its end. Padding is known by position, never by id.
void fill_row(HostBatch& batch, int64_t index, const PackedRow& row, int32_t pad_id, const TargetRule& rule);

struct RowBatchSettings {
  int64_t rows = 0;
  int64_t length = 0;
  int32_t pad_id = 0;
  TargetRule rule;
  bool keeps_rest = false;  ///< fill an incomplete last batch with padding rows; else drop it with an info line
  std::string split;        ///< for messages
  std::string settings;     ///< all that forms the stream; a state of other settings is refused
};

class RowBatches : public BatchSource {
 public:
  RowBatches(std::unique_ptr<Stage<PackedRow>> rows, RowBatchSettings settings);

  /// @throws DataError when the split does not fill one batch and the rest is not kept
  std::optional<HostBatch> next() override;
  void reset() override;
  nlohmann::json state() const override;
  void load_state(const nlohmann::json& state) override;

 private:
  void drop(int64_t num_rows, int64_t num_tokens) const;

  std::unique_ptr<Stage<PackedRow>> rows_;
  RowBatchSettings settings_;
  int64_t batches_done_ = 0;
  bool has_ended_ = false;
};

}  // namespace ballast
