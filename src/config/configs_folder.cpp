// SPDX-License-Identifier: Apache-2.0
#include "config/configs_folder.h"

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "errors/errors.h"
#include "errors/log.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;

bool is_configs_folder(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "base.yml", ignored);
}

// The names a shipped file may go by: the path itself, and what follows its last `configs` folder.
std::vector<fs::path> shipped_names(const fs::path& path) {
  std::vector<fs::path> names = {path.lexically_normal()};
  fs::path rest;
  bool is_below = false;
  for (const fs::path& part : path) {
    if (is_below) rest /= part;
    if (part == "configs") {
      is_below = true;
      rest.clear();
    }
  }
  if (!rest.empty()) names.push_back(rest);
  return names;
}

}  // namespace

std::string find_configs_folder() {
  Fault fault;
  fault.what = "no folder with base.yml";
  if (const char* given = std::getenv("BALLAST_CONFIGS"); given != nullptr && *given != '\0') {
    if (is_configs_folder(given)) return given;
    fault.where = "config: environment BALLAST_CONFIGS";
    fault.got = given;
    throw ConfigError(fault);
  }
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  fs::path folder = program.parent_path();
  // From build/ballast or build/<kind>/ballast to the source tree: a few levels are enough.
  for (int level = 0; level < 4 && folder.has_relative_path(); ++level, folder = folder.parent_path()) {
    if (is_configs_folder(folder / "configs")) return (folder / "configs").string();
  }
  fault.where = "config: shipped files";
  fault.got = "nothing beside or above " + program.string();
  fault.attempt = "BALLAST_CONFIGS=<folder>";
  throw ConfigError(fault);
}

std::string find_shipped_file(const std::string& path, const std::string& configs_folder) {
  std::error_code ignored;
  if (configs_folder.empty() || fs::path(path).is_absolute()) return {};
  for (const fs::path& name : shipped_names(path)) {
    const fs::path shipped = fs::path(configs_folder) / name;
    if (*name.begin() != ".." && fs::is_regular_file(shipped, ignored)) return shipped.string();
  }
  return {};
}

std::string find_config_file(const std::string& path, const std::string& configs_folder) {
  std::error_code ignored;
  if (fs::exists(path, ignored)) return path;
  if (std::string shipped = find_shipped_file(path, configs_folder); !shipped.empty()) {
    log_info("config: no file " + path + " here; using " + shipped);
    return shipped;
  }
  Fault fault;
  fault.where = "config: " + path;
  fault.what = "no such file, here or among the shipped ones in " + configs_folder;
  throw ConfigError(fault);
}

}  // namespace ballast
