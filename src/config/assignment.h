// SPDX-License-Identifier: Apache-2.0
// One value on its way into the configuration.
#pragma once

#include <string>

namespace ballast {

/// `key` gets the value that `value_text` spells in the grammar of value.h.
struct KeyAssignment {
  std::string key;
  std::string value_text;
  std::string origin;       ///< "command line", "environment M_STEPS", "config.json:hidden_size"
  bool is_default = false;  ///< the family's default for a field that config.json leaves out
};

}  // namespace ballast
