// SPDX-License-Identifier: Apache-2.0
#include "train/data_need.h"

#include "metrics/number.h"

namespace ballast {

void DataNeed::add_step(int64_t tokens, double step_seconds) {
  if (num_steps_++ == 0) return;
  tokens_sum_ += tokens;
  seconds_sum_ += step_seconds;
}

std::optional<std::string> DataNeed::line(std::optional<double> ready) {
  if (is_told_ || num_steps_ <= kMeasuredSteps || !ready || seconds_sum_ <= 0) return std::nullopt;
  is_told_ = true;
  const double needed = static_cast<double>(tokens_sum_) / seconds_sum_;
  std::string line =
      "data: " + short_count(*ready) + " tokens/s ready, the step needs " + short_count(needed) + " tokens/s";
  if (*ready < needed) line += "; the steps wait for data: tokenize beforehand (tokenize_train_data=false)";
  return line;
}

}  // namespace ballast
