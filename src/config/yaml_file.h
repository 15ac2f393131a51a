// SPDX-License-Identifier: Apache-2.0
// Configuration files, with the line of every value.
#pragma once

#include <string>

#include "config/layer.h"

namespace ballast {

/// The values of the file at `path`, over those of the file its `base_config` names, and so on. A base is looked up
/// beside the file that names it, then among the shipped ones. Maps merge key by key, lists are replaced.
///
/// @throws ConfigError naming file:line:column: unreadable, malformed, no map, a key twice, base files in a circle
Layer read_config_chain(const std::string& path, const std::string& configs_folder);

/// The values of one file. `base_config` is an ordinary key here.
Layer read_config_file(const std::string& path, const std::string& configs_folder);

/// How error lines and origins name a file: a shipped one as "configs/models/x.yml", any other as it was given.
std::string display_name(const std::string& path, const std::string& configs_folder);

}  // namespace ballast
