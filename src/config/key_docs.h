// SPDX-License-Identifier: Apache-2.0
// The key table as text: for the terminal, for docs/keys.md and for configs/base.yml.
#pragma once

#include <string>

namespace ballast {

/// Keys whose name or meaning contains `pattern` (any case), two lines each; all of them for an empty pattern.
/// @throws ConfigError if there is none, naming keys that look like it
std::string list_keys(const std::string& pattern);

/// docs/keys.md.
std::string keys_markdown();

/// configs/base.yml: every key a user can set, at its default.
std::string base_yml();

}  // namespace ballast
