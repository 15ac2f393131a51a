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

std::string print_config(const Config& config) {
  const auto on_one_line = [](std::string text) {
    for (size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at)) text.replace(at, 1, "\\n");
    return text;
  };
  std::vector<std::string> lines;
  for (const KeyInfo& key : key_table()) {
    const std::string text = on_one_line(to_text(get_value(config, key)));
    const bool is_hidden = key.rule.is_secret && !text.empty();
    lines.push_back(std::string(key.name) + " = " +
                    (is_hidden      ? "(set)"
                     : text.empty() ? "''"
                                    : text) +
                    "  (" + config.origin(key.name) + ")\n");
  }
  std::sort(lines.begin(), lines.end());
  std::string page;
  for (const std::string& line : lines) page += line;
  return page;
}

}  // namespace ballast
