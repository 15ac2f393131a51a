// SPDX-License-Identifier: Apache-2.0
// Smaller batches at the start of a run.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "config/rampup.h"
#include "data/batch.h"

namespace ballast {

/// Cuts the rows of `source`, in their order, into the batches of a ramp. From end_step() on the batches of `source`
/// pass as they are; rows that are left over then, fewer than one batch, are dropped.
class RampupSource : public BatchSource {
 public:
  RampupSource(std::unique_ptr<BatchSource> source, const BatchRampup& rampup);
  std::optional<HostBatch> next() override;
  void reset() override;
  nlohmann::json state() const override;
  void load_state(const nlohmann::json& state) override;

 private:
  /// The next batch of `source` becomes the one that rows are taken from. False at the end.
  bool refill();

  std::unique_ptr<BatchSource> source_;
  BatchRampup rampup_;
  int64_t end_step_;
  int64_t step_ = 0;
  std::optional<HostBatch> batch_;  // rows are taken from it
  int64_t rows_taken_ = 0;
  nlohmann::json batch_state_;  // of the source before that batch
};

}  // namespace ballast
