// SPDX-License-Identifier: Apache-2.0
#include "config/config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "config/key_table.h"
#include "errors/errors.h"

namespace ballast {
namespace {

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// A value as YAML. Words are quoted, so that none of them is taken for something else.
std::string yaml_text(const TypedValue& value, ValueKind kind) {
  if (std::holds_alternative<std::monostate>(value)) return "None";
  if (kind == ValueKind::kString) return quoted(std::get<std::string>(value));
  if (kind != ValueKind::kStrings) return to_text(value);
  std::string text = "[";
  for (const std::string& word : std::get<std::vector<std::string>>(value)) {
    text += (text.size() > 1 ? ", " : "") + quoted(word);
  }
  return text + "]";
}

/// Keys that rope_type=llama3.1 takes for other numbers than their defaults as long as nobody gives them: a line would.
bool depends_on_rope_type(const KeyInfo& key) {
  return key.name == "rope_factor" || key.name == "original_max_position_embeddings";
}

/// Lines by the key they begin with.
std::map<std::string, std::string> lines_by_key(const std::string& text) {
  std::map<std::string, std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    const size_t colon = line.find(": ");
    if (!line.starts_with('#') && colon != std::string::npos) lines[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return lines;
}

}  // namespace

Config::Config() {
  for (const KeyInfo& key : key_table()) {
    if (!std::holds_alternative<std::monostate>(key.field)) set_value(*this, key, key.default_value());
  }
}

const std::string& Config::origin(std::string_view key) const {
  static const std::string kDefault = "default";
  const KeyInfo* info = find_key(key);
  BALLAST_CHECK(info != nullptr, "no key named " + std::string(key));
  const auto found = origins_.find(info->name);
  return found == origins_.end() ? kDefault : found->second;
}

void Config::set_origin(std::string_view key, std::string origin) {
  const KeyInfo* info = find_key(key);
  BALLAST_CHECK(info != nullptr, "no key named " + std::string(key));
  origins_[std::string(info->name)] = std::move(origin);
}

namespace {

// A value on one line; a secret only says that it is set.
std::string shown_value(const Config& config, const KeyInfo& key) {
  std::string text = to_text(get_value(config, key));
  if (text.empty()) return "''";
  if (key.rule.is_secret) return "(set)";
  for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at)) text.replace(at, 1, "\\n");
  return text;
}

// The file of an origin that names a place in one: "configs/base.yml:41", "config.json:hidden_size".
std::string source_of(const std::string& origin) {
  return origin.substr(0, origin.rfind(':'));
}

}  // namespace

std::vector<std::string> changed_values(const Config& config) {
  std::map<std::string, std::string> lines;
  for (const KeyInfo& key : key_table()) {
    if (get_value(config, key) == key.default_value()) continue;
    lines[source_of(config.origin(key.name))] += " " + std::string(key.name) + "=" + shown_value(config, key);
  }
  std::vector<std::string> page;
  const auto computed = lines.extract("derived");
  for (const auto& [source, values] : lines) page.push_back(source + ":" + values);
  if (computed) page.push_back("computed:" + computed.mapped());
  return page;
}

std::string print_config(const Config& config) {
  std::vector<std::string> lines;
  for (const KeyInfo& key : key_table()) {
    lines.push_back(std::string(key.name) + " = " + shown_value(config, key) + "  (" + config.origin(key.name) + ")\n");
  }
  std::sort(lines.begin(), lines.end());
  std::string page;
  for (const std::string& line : lines) page += line;
  return page;
}

std::string config_yml(const Config& config) {
  std::string page = "# Every key of a run. `ballast train` takes this file as its first argument.\n";
  for (const KeyInfo& key : key_table()) {
    const bool is_fieldless = std::holds_alternative<std::monostate>(key.field);
    if (key.rule.effect == Effect::kComputed || key.rule.is_secret || key.name == "base_config") continue;
    if (is_fieldless && !config.fieldless.contains(key.name)) continue;
    if (depends_on_rope_type(key) && !is_chosen(config, key)) continue;
    TypedValue value = get_value(config, key);
    if (key.name == "hf_model_path") value = std::string();
    if (key.name == "model_name") value = key.default_value();
    page += std::string(key.name) + ": " + yaml_text(value, key.kind) + "\n";
  }
  return page;
}

std::vector<std::string> config_differences(const std::string& before, const std::string& now) {
  const std::map<std::string, std::string> old_lines = lines_by_key(before);
  std::vector<std::string> differences;
  for (const auto& [key, value] : lines_by_key(now)) {
    const auto old_value = old_lines.find(key);
    if (old_value == old_lines.end() || old_value->second == value) continue;
    differences.push_back(key + ": " + old_value->second + " -> " + value);
  }
  return differences;
}

}  // namespace ballast
