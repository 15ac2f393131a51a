// SPDX-License-Identifier: Apache-2.0
// From files, command line and environment to one Config.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"

namespace ballast {

struct ConfigOptions {
  std::string configs_folder;  ///< folder of the shipped files; empty: find_configs_folder()
  /// Environment variables to read; unset: those of the process.
  std::optional<std::map<std::string, std::string>> environment;
  bool needs_data = true;   ///< check also what only training and evaluation need: data set, output folder
  int64_t num_devices = 0;  ///< devices of the run; 0: cpu_devices
};

/// The configuration of a command: `arguments` is [CONFIG.yml] key=value ... Without a file, base.yml.
///
/// Layers, later ones win: defaults, the file and its base_config chain, the model's file (model_name) or folder
/// (hf_model_path), command line or environment (M_<KEY>). A hard key that the last layer sets to another value than
/// the model's is an error unless override_model_config is true. Writes info lines and warnings to the log.
///
/// @throws ConfigError, one line that names file and line, or the origin, of the value at fault
Config resolve_config(const std::vector<std::string>& arguments, const ConfigOptions& options);

/// The same of one file alone.
Config config_from_file(const std::string& path, const ConfigOptions& options);

/// As a command line over the defaults: no file, no environment and, without `options`, no check for a run.
/// hf_model_path and model_name work.
Config config_from_pairs(const std::vector<std::string>& pairs);
Config config_from_pairs(const std::vector<std::string>& pairs, const ConfigOptions& options);

}  // namespace ballast
