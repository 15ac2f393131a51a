// SPDX-License-Identifier: Apache-2.0
// The batch contract between data and training: plain host arrays, no torch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/stage.h"

namespace ballast {

/// Rows of one step that this rank holds. Every array is [rows, length], row-major.
///
/// `inputs_segmentation` numbers the documents of a row from 1; 0 is padding. Attention stays inside equal non-zero
/// numbers. A position counts in the loss exactly when `targets_segmentation` is not 0. Positions restart at each
/// document and are 0 in padding; `targets_position` equals `inputs_position`. Where `targets_segmentation` is 0 the
/// target is any id inside the vocabulary.
struct HostBatch {
  int64_t rows = 0;
  int64_t length = 0;
  std::vector<int32_t> inputs;
  std::vector<int32_t> inputs_position;
  std::vector<int32_t> inputs_segmentation;
  std::vector<int32_t> targets;
  std::vector<int32_t> targets_position;
  std::vector<int32_t> targets_segmentation;

  /// The six arrays above, in that order.
  std::array<std::vector<int32_t>*, 6> arrays();
  std::array<const std::vector<int32_t>*, 6> arrays() const;
  /// Gives all six arrays `new_rows * new_length` zeros.
  void resize(int64_t new_rows, int64_t new_length);
  /// Number of positions that count in the loss.
  int64_t loss_tokens() const;
  /// Throws DataError naming `where` unless all six arrays have rows * length entries, ids lie in [0, vocab_size),
  /// and targets do wherever they count.
  void check(int64_t vocab_size, const std::string& where) const;
};

/// Throws the DataError of an id that no vocabulary entry has. `where` names file and position.
[[noreturn]] void fail_token_id(const std::string& where, int64_t id, int64_t vocab_size);

/// A stream of batches. Evaluation calls reset() before each pass.
class BatchSource : public Stage<HostBatch> {
 public:
  /// Positions of batches that this source can make in a second, where it measures that. Safe beside next().
  virtual std::optional<double> tokens_per_second() const { return std::nullopt; }
};

}  // namespace ballast
