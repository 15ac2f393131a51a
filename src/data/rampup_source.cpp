// SPDX-License-Identifier: Apache-2.0
#include "data/rampup_source.h"

#include <algorithm>
#include <utility>

namespace ballast {

using nlohmann::json;

RampupSource::RampupSource(std::unique_ptr<BatchSource> source, const BatchRampup& rampup)
    : source_(std::move(source)), rampup_(rampup), end_step_(rampup.end_step()) {}

bool RampupSource::refill() {
  batch_state_ = source_->state();
  rows_taken_ = 0;
  batch_ = source_->next();
  return batch_.has_value();
}

std::optional<HostBatch> RampupSource::next() {
  if (step_ >= end_step_) {
    batch_.reset();
    return source_->next();
  }
  const int64_t rows = rampup_.rows_at(step_);
  HostBatch cut;
  for (int64_t filled = 0; filled < rows;) {
    if ((!batch_ || rows_taken_ == batch_->rows) && !refill()) return std::nullopt;
    if (filled == 0) cut.resize(rows, batch_->length);
    const int64_t taken = std::min(rows - filled, batch_->rows - rows_taken_);
    for (size_t i = 0; i < cut.arrays().size(); ++i) {
      const auto begin = batch_->arrays()[i]->begin() + rows_taken_ * batch_->length;
      std::copy(begin, begin + taken * batch_->length, cut.arrays()[i]->begin() + filled * batch_->length);
    }
    filled += taken;
    rows_taken_ += taken;
  }
  ++step_;
  return cut;
}

void RampupSource::reset() {
  source_->reset();
  batch_.reset();
  step_ = 0;
}

json RampupSource::state() const {
  if (!batch_ || step_ >= end_step_) return {{"step", step_}, {"rows_taken", 0}, {"source", source_->state()}};
  return {{"step", step_}, {"rows_taken", rows_taken_}, {"source", batch_state_}};
}

void RampupSource::load_state(const json& state) {
  step_ = state.at("step");
  source_->load_state(state.at("source"));
  batch_.reset();
  if (state.at("rows_taken") == 0) return;
  refill();
  rows_taken_ = state.at("rows_taken");
}

}  // namespace ballast
