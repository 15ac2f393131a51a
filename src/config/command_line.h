// SPDX-License-Identifier: Apache-2.0
// Values from the command line and from the environment.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/layer.h"

namespace ballast {

struct CommandLine {
  std::string config_file;  ///< the first argument if it is a .yml file, else empty
  Layer layer;              ///< key=value arguments; of a repeated key the last
};

/// @throws ConfigError for an argument that is neither a leading file nor key=value
CommandLine parse_command_line(const std::vector<std::string>& arguments);

/// The values of all variables M_<KEY IN UPPER CASE>; a dot of a key is written as two underscores. A variable that
/// almost names a key draws a warning, any other is ignored.
Layer environment_layer(const std::map<std::string, std::string>& environment);

/// The variables of this process.
std::map<std::string, std::string> process_environment();

/// N of `--xla_force_host_platform_device_count=N` in XLA_FLAGS, as text; empty if it is not there.
std::string xla_device_count(const std::map<std::string, std::string>& environment);

}  // namespace ballast
