// SPDX-License-Identifier: Apache-2.0
// Batches written down beforehand: dataset_type=recorded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>

#include "data/batch.h"
#include "files/safetensors.h"

namespace ballast {

/// The rows that a run expects of its recorded batches.
struct RecordedSettings {
  std::filesystem::path path;
  int64_t rows = 0;    ///< of a global batch
  int64_t length = 0;  ///< max_target_length
  int64_t vocab_size = 0;
};

/// Batches from a safetensors file: `batches` [steps, rows, T + 1] int32, and optionally `segments` of the same shape
/// and type (0 is padding; absent: one document a row). Step s takes entry s; the data end after the last one.
class RecordedSource : public BatchSource {
 public:
  /// Checks the whole file.
  /// @throws DataError with step, row and position: missing tensor, wrong type or shape, id outside the vocabulary
  explicit RecordedSource(const RecordedSettings& settings);

  std::optional<HostBatch> next() override;
  void reset() override { step_ = 0; }
  nlohmann::json state() const override;
  void load_state(const nlohmann::json& state) override;

 private:
  std::span<const int32_t> read(const char* name) const;
  void check_values() const;

  RecordedSettings settings_;
  SafetensorsFile file_;
  std::span<const int32_t> tokens_;
  std::span<const int32_t> segments_;  // empty when absent
  int64_t num_steps_ = 0;
  int64_t step_ = 0;
};

}  // namespace ballast
