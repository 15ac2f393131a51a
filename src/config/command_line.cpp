// SPDX-License-Identifier: Apache-2.0
#include "config/command_line.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "config/key_table.h"
#include "errors/errors.h"
#include "errors/log.h"

namespace ballast {
namespace {

bool is_config_file(const std::string& argument) {
  return argument.find('=') == std::string::npos && (argument.ends_with(".yml") || argument.ends_with(".yaml"));
}

[[noreturn]] void refuse_argument(const std::string& argument) {
  Fault fault;
  fault.where = "config: command line " + argument;
  if (is_config_file(argument)) {
    fault.what = "the configuration file must be the first argument";
    throw ConfigError(fault);
  }
  const std::string word = argument.substr(std::min(argument.find_first_not_of('-'), argument.size()));
  fault.what = "is not key=value";
  if (argument.find('=') != std::string::npos) {
    fault.attempt = word;
  } else if (const KeyInfo* key = find_key(word); key != nullptr && key->can_be_absent) {
    fault.attempt = word + "=None";
  } else if (key != nullptr) {
    fault.attempt = word + "=" + to_text(key->default_value());
  }
  throw ConfigError(fault);
}

std::string variable_name(std::string_view key) {
  std::string name = "M_";
  for (const char c : key) name += c == '.' ? "__" : std::string(1, static_cast<char>(std::toupper(c)));
  return name;
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  CommandLine line;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (i == 0 && is_config_file(argument)) {
      line.config_file = argument;
      continue;
    }
    const size_t equals = argument.find('=');
    if (equals == std::string::npos || equals == 0 || argument.starts_with('-')) refuse_argument(argument);
    std::string key = argument.substr(0, equals);
    // Both spellings of a key are one key, of which the last counts.
    if (const KeyInfo* info = find_key(key)) key = info->name;
    line.layer[key] = {parse_scalar(std::string_view(argument).substr(equals + 1)), "command line"};
  }
  return line;
}

Layer environment_layer(const std::map<std::string, std::string>& environment) {
  Layer layer;
  std::map<std::string, std::string> keys;
  for (const KeyInfo& key : key_table()) keys[variable_name(key.name)] = key.name;
  for (const auto& [other, name] : key_aliases()) keys[variable_name(other)] = name;
  std::vector<std::string> names;
  for (const auto& [name, key] : keys) names.push_back(name);
  for (const auto& [name, text] : environment) {
    if (!name.starts_with("M_")) continue;
    const auto key = keys.find(name);
    if (key != keys.end()) {
      layer[key->second] = {parse_scalar(text), "environment " + name};
    } else if (const auto near = near_words(name, names); !near.empty()) {
      log_warning("config: environment " + name + " names no key and is ignored; did you mean " + join_or(near) + "?");
    }
  }
  return layer;
}

std::map<std::string, std::string> process_environment() {
  std::map<std::string, std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::string xla_device_count(const std::map<std::string, std::string>& environment) {
  constexpr std::string_view kFlag = "--xla_force_host_platform_device_count=";
  const auto flags = environment.find("XLA_FLAGS");
  if (flags == environment.end()) return {};
  const size_t at = flags->second.find(kFlag);
  if (at == std::string::npos) return {};
  const size_t begin = at + kFlag.size();
  return flags->second.substr(begin, flags->second.find_first_of(" \t", begin) - begin);
}

}  // namespace ballast
