// SPDX-License-Identifier: Apache-2.0
// JSON from files of others.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace ballast {

/// Arrays and objects inside each other. The library writes JSON by recursion, so that some hundred thousand levels, a
/// small file, would end the program.
inline constexpr int kMostJsonLevels = 500;

/// @throws nlohmann::json::parse_error where `text` opens more than kMostJsonLevels brackets outside strings
void check_json_levels(std::string_view text);

/// The value that `text` is.
/// @throws nlohmann::json::parse_error for whatever is wrong with it; its `byte` is 0 for a number out of range
nlohmann::json parse_json(std::string_view text);

}  // namespace ballast
