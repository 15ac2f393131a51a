// SPDX-License-Identifier: Apache-2.0
// Batches without data: dataset_type=synthetic.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "data/batch.h"

namespace ballast {

struct SyntheticSettings {
  int64_t rows = 0;
  int64_t length = 0;
  int64_t vocab_size = 0;
  int64_t max_documents = 1;  ///< documents in a row; 1: no borders
};

/// One fixed batch, over and over, without end. Tokens [rows, length + 1] are uniform in [0, vocab_size) from
/// DataRandom(kSyntheticTokens, {0}) in row-major order. With more than one document a row draws their number n from
/// 1..max_documents and n - 1 borders; borders that coincide count once.
class SyntheticSource : public BatchSource {
 public:
  explicit SyntheticSource(const SyntheticSettings& settings);

  std::optional<HostBatch> next() override { return batch_; }
  void reset() override {}
  nlohmann::json state() const override;
  void load_state(const nlohmann::json& state) override;

 private:
  HostBatch batch_;
};

}  // namespace ballast
