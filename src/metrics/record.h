// SPDX-License-Identifier: Apache-2.0
// One record of a run: a step's or an evaluation's scalars under their TensorBoard tags.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ballast {

/// Scalars keep the order in which they were set; that is the order in every sink.
struct Record {
  std::string kind;  ///< "train" or "eval"
  int64_t step = 0;  ///< 0-based training step
  std::vector<std::pair<std::string, double>> scalars;

  void set(const std::string& tag, double value);
  std::optional<double> get(const std::string& tag) const;
};

}  // namespace ballast
