// SPDX-License-Identifier: Apache-2.0
// Compares the tensors a model wants with those a file has, and tells all differences at once.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "files/safetensors.h"

namespace ballast {

class WeightFit {
 public:
  /// @param find  the file's tensor of a name; null: there is none
  /// @param wanted  names and shapes
  WeightFit(const std::vector<StoredTensor>& wanted,
            const std::function<const StoredTensor*(const std::string&)>& find);
  bool wants(const std::string& name) const { return wanted_.contains(name); }
  void add_unexpected(const std::string& name) { unexpected_.push_back(name); }
  /// @throws CheckpointError listing missing, unexpected and misshaped tensors
  void check(const std::string& where, const std::string& attempt) const;

 private:
  std::set<std::string> wanted_;
  std::vector<std::string> missing_, unexpected_, misshaped_;
};

/// "title 7: a, b, c, d, e, ..."; empty for no name.
std::string listed(const std::string& title, const std::vector<std::string>& names);

}  // namespace ballast
