// SPDX-License-Identifier: Apache-2.0
// Architecture keys from a Hugging Face folder.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "config/assignment.h"

namespace ballast {

/// The keys that `folder`/config.json fixes, with origins "config.json:<field>". Aliases: docs/hf_config.md.
/// @throws ConfigError if the file is missing or malformed, or describes a model that is not built
std::vector<KeyAssignment> hf_config_assignments(const std::string& folder);

/// The same of a config.json that has been parsed. `path` names it in error lines.
std::vector<KeyAssignment> hf_config_assignments(const nlohmann::json& root, const std::string& path);

}  // namespace ballast
