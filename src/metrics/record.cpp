// SPDX-License-Identifier: Apache-2.0
#include "metrics/record.h"

#include <algorithm>

namespace ballast {

void Record::set(const std::string& tag, double value) {
  const auto found =
      std::find_if(scalars.begin(), scalars.end(), [&](const auto& entry) { return entry.first == tag; });
  if (found == scalars.end()) {
    scalars.emplace_back(tag, value);
  } else {
    found->second = value;
  }
}

std::optional<double> Record::get(const std::string& tag) const {
  const auto found =
      std::find_if(scalars.begin(), scalars.end(), [&](const auto& entry) { return entry.first == tag; });
  if (found == scalars.end()) return std::nullopt;
  return found->second;
}

}  // namespace ballast
