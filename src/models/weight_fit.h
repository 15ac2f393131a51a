// SPDX-License-Identifier: Apache-2.0
// Compares the tensors a model wants with those a file has, and tells all differences at once.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "files/safetensors.h"

namespace ballast {

class WeightFit {
 public:
  /// Whether `stored` can become `target`; null: there is no such tensor.
  bool add(const std::string& name, const StoredTensor* stored, const at::Tensor& target);
  void add_unexpected(const std::string& name) { unexpected_.push_back(name); }
  /// @throws CheckpointError listing missing, unexpected and misshaped tensors
  void check(const std::string& where, const std::string& attempt) const;

 private:
  std::vector<std::string> missing_, unexpected_, misshaped_;
};

/// "title 7: a, b, c, d, e, ..."; empty for no name.
std::string listed(const std::string& title, const std::vector<std::string>& names);

}  // namespace ballast
