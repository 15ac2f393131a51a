// SPDX-License-Identifier: Apache-2.0
#include "config/config.h"

#include <algorithm>
#include <string>

#include "config/key_table.h"
#include "errors/errors.h"

namespace ballast {

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

}  // namespace ballast
