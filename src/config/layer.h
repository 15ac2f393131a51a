// SPDX-License-Identifier: Apache-2.0
// The values that one source gives, before they are checked.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "config/value.h"

namespace ballast {

struct Setting {
  Value value;
  std::string origin;  ///< "configs/base.yml:41", "command line", "environment M_STEPS"
};

/// By key as written, with dots for nested maps. Keys may be unknown.
using Layer = std::map<std::string, Setting, std::less<>>;

/// Puts all of `upper` over `lower`.
void overlay(Layer& lower, const Layer& upper);

}  // namespace ballast
