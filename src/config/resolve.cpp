// SPDX-License-Identifier: Apache-2.0
#include "config/resolve.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "config/checks.h"
#include "config/command_line.h"
#include "config/configs_folder.h"
#include "config/derived.h"
#include "config/hf_config.h"
#include "config/key_table.h"
#include "config/yaml_file.h"
#include "errors/errors.h"
#include "errors/log.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;

Fault fault_at(std::string where, std::string what) {
  Fault fault;
  fault.where = std::move(where);
  fault.what = std::move(what);
  return fault;
}

// All unknown keys of a layer in one error.
void check_names(const Layer& layer) {
  std::vector<std::string> unknown;
  for (const auto& [key, setting] : layer) {
    if (find_key(key) != nullptr) continue;
    const bool is_group = is_key_group(key);
    std::string line = setting.origin + " " + key + (is_group ? ": a group of keys, not a key" : ": unknown key");
    const std::vector<std::string> near = is_group ? std::vector<std::string>() : near_keys(key);
    if (!near.empty()) line += "; did you mean " + join_or(near) + "?";
    unknown.push_back(line);
  }
  if (unknown.empty()) return;
  std::string line;
  for (const std::string& part : unknown) line += (line.empty() ? "" : " | ") + part;
  throw ConfigError(fault_at("config", line));
}

// Keys under their own name, whatever spelling they came in. Two spellings in one layer contradict each other.
Layer with_own_names(const Layer& layer) {
  Layer result;
  for (const auto& [key, setting] : layer) {
    const auto [earlier, is_new] = result.emplace(find_key(key)->name, setting);
    if (is_new) continue;
    throw ConfigError(
        fault_at(place_of(setting.origin, key), "given twice, as " + earlier->first + " at " + earlier->second.origin));
  }
  return result;
}

Layer checked_names(const Layer& layer) {
  check_names(layer);
  return with_own_names(layer);
}

// What `key` is set to before the model's layer is known, and its text; the default if nobody sets it.
Setting setting_of(const std::string& key, const Layer& upper, const Layer& lower) {
  for (const Layer* layer : {&upper, &lower}) {
    const auto found = layer->find(key);
    if (found != layer->end()) return found->second;
  }
  return {parse_scalar(find_key(key)->default_text), "default"};
}

std::string text_of(const std::string& key, const Layer& upper, const Layer& lower) {
  return to_text(checked_value(*find_key(key), setting_of(key, upper, lower)));
}

[[noreturn]] void refuse_model_name(const Setting& setting, const std::string& folder) {
  const std::string& name = setting.value.text;
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& file : fs::directory_iterator(fs::path(folder) / "models", ignored)) {
    if (file.path().extension() == ".yml") names.push_back(file.path().stem());
  }
  std::sort(names.begin(), names.end());
  std::vector<std::string> near = near_words(name, names);
  Fault fault = fault_at(place_of(setting.origin, "model_name"), "no such model");
  fault.got = name;
  fault.need = near.empty() ? "default or a file of " + folder + "/models" : join_or(near);
  throw ConfigError(fault);
}

struct ModelLayer {
  Layer layer;
  std::set<std::string> hard_keys;  ///< a command line may not contradict these
};

// The model's file is looked up beside the configuration file, one folder up, and among the shipped ones.
ModelLayer read_model_layer(const Layer& files, const Layer& line, const std::string& config_file,
                            const std::string& configs_folder) {
  std::string name = text_of("model_name", line, files);
  const std::string hf_folder = text_of("hf_model_path", line, files);
  const bool has_name = !name.empty() && name != "default";
  ModelLayer model;
  if (!hf_folder.empty()) {
    if (has_name) {
      const Setting other = setting_of("model_name", line, files);
      Fault fault = fault_at(place_of(setting_of("hf_model_path", line, files).origin, "hf_model_path"),
                             "the model is given twice");
      fault.got = "model_name=" + name + " (" + other.origin + ") too";
      fault.need = "one of them";
      throw ConfigError(fault);
    }
    for (const KeyAssignment& assignment : hf_config_assignments(hf_folder)) {
      model.layer[assignment.key] = {parse_scalar(assignment.value_text), assignment.origin};
      if (!assignment.is_default) model.hard_keys.insert(assignment.key);
    }
    return model;
  }
  if (!has_name) return model;
  constexpr std::string_view kInstruct = "-Instruct";
  if (name.ends_with(kInstruct)) name.resize(name.size() - kInstruct.size());
  const Setting name_setting = setting_of("model_name", line, files);
  if (name.find('/') != std::string::npos) refuse_model_name(name_setting, configs_folder);
  const fs::path beside = fs::path(config_file).parent_path();
  for (const fs::path& folder : {beside, beside / "..", fs::path(configs_folder)}) {
    const fs::path file = folder / "models" / (name + ".yml");
    if (!fs::is_regular_file(file)) continue;
    model.layer = read_config_chain(file.string(), configs_folder);
    for (const auto& [key, setting] : model.layer) {
      const KeyInfo* info = find_key(key);  // unknown names are refused later, all at once
      if (info != nullptr && info->precedence == Precedence::kHard) model.hard_keys.insert(key);
    }
    return model;
  }
  refuse_model_name(name_setting, configs_folder);
}

std::string named_value(const std::string& key, const Setting& setting) {
  return key + "=" + to_text(setting.value) + " (" + setting.origin + ")";
}

bool says_the_same(const std::string& key, const Setting& a, const Setting& b) {
  return checked_value(*find_key(key), a) == checked_value(*find_key(key), b);
}

// The model's file wins against the configuration file. A line for each value that is lost.
void note_lost_values(const Layer& files, const Layer& model, const Layer& line) {
  for (const auto& [key, setting] : files) {
    const auto won = model.find(key);
    if (won == model.end() || line.contains(key)) continue;
    const KeyInfo& info = *find_key(key);
    const std::optional<TypedValue> value = info.read(setting.value);
    if (!value || *value == info.default_value() || says_the_same(key, setting, won->second)) continue;
    log_info("config: " + named_value(key, setting) + " gives way to " + named_value(key, won->second));
  }
}

// Takes out of the model's layer what the command line overrides.
void apply_override_rule(ModelLayer& model, const Layer& line, bool overrides_model) {
  for (const auto& [key, setting] : line) {
    const auto fixed = model.layer.find(key);
    if (fixed == model.layer.end()) continue;
    if (!overrides_model && !says_the_same(key, setting, fixed->second)) {
      if (model.hard_keys.contains(key)) {
        Fault fault = fault_at(place_of(setting.origin, key), "contradicts the model");
        fault.got = to_text(setting.value);
        fault.need = to_text(fixed->second.value) + " (" + fixed->second.origin + ")";
        fault.attempt = "override_model_config=true";
        throw ConfigError(fault);
      }
      log_info("config: " + named_value(key, setting) + " replaces " + named_value(key, fixed->second));
    }
    model.layer.erase(fixed);
  }
}

// Command line and environment as one layer. XLA_FLAGS counts where nobody gives cpu_devices.
Layer merge_line(const Layer& command_line, const std::map<std::string, std::string>& environment, const Layer& files) {
  Layer line = checked_names(command_line);
  for (const auto& [key, setting] : checked_names(environment_layer(environment))) {
    const auto [other, is_new] = line.emplace(key, setting);
    if (is_new) continue;
    throw ConfigError(fault_at(place_of(setting.origin, key), "given on the command line too; need one of them"));
  }
  const std::string device_count = xla_device_count(environment);
  if (!device_count.empty() && text_of("hardware", line, files) == "cpu") {
    line.emplace("cpu_devices", Setting{parse_scalar(device_count), "environment XLA_FLAGS"});
  }
  return line;
}

Config config_from_layers(const CommandLine& command_line, const Layer& files, const std::string& config_file,
                          const ConfigOptions& options) {
  const auto environment = options.environment.value_or(process_environment());
  const Layer line = merge_line(command_line.layer, environment, files);
  ModelLayer model = read_model_layer(files, line, config_file, options.configs_folder);
  model.layer = checked_names(model.layer);

  apply_override_rule(model, line, text_of("override_model_config", line, files) == "true");
  note_lost_values(files, model.layer, line);

  Layer merged = files;
  overlay(merged, model.layer);
  overlay(merged, line);
  Config config;
  for (const auto& [key, setting] : merged) {
    const KeyInfo& info = *find_key(key);
    set_value(config, info, checked_value(info, setting));
    warn_if_without_effect(info, setting);
    config.set_origin(key, setting.origin);
  }
  check_together(config, options.needs_data);
  const int64_t num_devices = options.num_devices > 0 ? options.num_devices : config.cpu_devices;
  derive_values(config, num_devices, environment, options.needs_data);
  return config;
}

}  // namespace

Config resolve_config(const std::vector<std::string>& arguments, const ConfigOptions& options) {
  ConfigOptions complete = options;
  if (complete.configs_folder.empty()) complete.configs_folder = find_configs_folder();
  const CommandLine command_line = parse_command_line(arguments);
  const std::string name =
      command_line.config_file.empty() ? complete.configs_folder + "/base.yml" : command_line.config_file;
  const std::string path = find_config_file(name, complete.configs_folder);
  const Layer files = checked_names(read_config_chain(path, complete.configs_folder));
  return config_from_layers(command_line, files, path, complete);
}

Config config_from_file(const std::string& path, const ConfigOptions& options) {
  ConfigOptions complete = options;
  if (complete.configs_folder.empty()) complete.configs_folder = find_configs_folder();
  const Layer files = checked_names(read_config_chain(path, complete.configs_folder));
  return config_from_layers({}, files, path, complete);
}

Config config_from_pairs(const std::vector<std::string>& pairs) {
  ConfigOptions options;
  options.environment.emplace();
  options.needs_data = false;
  return config_from_pairs(pairs, options);
}

Config config_from_pairs(const std::vector<std::string>& pairs, const ConfigOptions& options) {
  ConfigOptions complete = options;
  if (!complete.environment) complete.environment.emplace();
  const CommandLine command_line = parse_command_line(pairs);
  const bool needs_folder = command_line.layer.contains("model_name") && complete.configs_folder.empty();
  if (needs_folder) complete.configs_folder = find_configs_folder();
  return config_from_layers(command_line, {}, "", complete);
}

}  // namespace ballast
