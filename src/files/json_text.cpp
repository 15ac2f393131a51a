// SPDX-License-Identifier: Apache-2.0
#include "files/json_text.h"

#include <nlohmann/json.hpp>
#include <string>

namespace ballast {

using nlohmann::json;

void check_json_levels(std::string_view text) {
  int num_levels = 0;
  bool is_in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') is_in_string = !is_in_string;
    if (is_in_string) {
      i += c == '\\';  // whatever follows is part of the string
    } else if (c == '[' || c == '{') {
      if (++num_levels <= kMostJsonLevels) continue;
      throw json::parse_error::create(101, i + 1, "nested deeper than " + std::to_string(kMostJsonLevels) + " levels",
                                      nullptr);
    } else if (c == ']' || c == '}') {
      --num_levels;
    }
  }
}

json parse_json(std::string_view text) {
  check_json_levels(text);
  try {
    return json::parse(text);
  } catch (const json::out_of_range& error) {  // 1e999
    throw json::parse_error::create(101, size_t{0}, error.what(), nullptr);
  }
}

}  // namespace ballast
