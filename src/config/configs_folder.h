// SPDX-License-Identifier: Apache-2.0
// Where the shipped configuration files are.
#pragma once

#include <string>

namespace ballast {

/// The folder with base.yml and models/: $BALLAST_CONFIGS, else the first `configs` beside or above the running
/// program. Throws ConfigError if there is none.
std::string find_configs_folder();

/// The shipped file of that name, empty if there is none: `x/base.yml`, `configs/x/base.yml` and
/// `src/maxtext/configs/x/base.yml` mean `<folder>/x/base.yml`.
std::string find_shipped_file(const std::string& path, const std::string& configs_folder);

/// The file that `path` names: itself if it exists, else the shipped one, with one info line. Throws ConfigError if
/// there is neither.
std::string find_config_file(const std::string& path, const std::string& configs_folder);

}  // namespace ballast
