// SPDX-License-Identifier: Apache-2.0
// Error lines about one configuration key, with the place the key's value came from.
#pragma once

#include <string>

#include "config/config.h"

namespace ballast {

/// Throws ConfigError `config: <origin of the value> <key>: <what>; got <got>, need <need>`.
[[noreturn]] void fail_spec(const Config& config, const std::string& key, const std::string& what,
                            const std::string& got, const std::string& need);

}  // namespace ballast
