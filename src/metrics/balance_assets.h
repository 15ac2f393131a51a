// SPDX-License-Identifier: Apache-2.0
// Style sheet and script of the page about expert load, beside those of the report.
#pragma once

#include <string_view>

namespace ballast {

extern const std::string_view kBalanceStyle;
/// Draws the maps from the JSON block "loads", moves them through the steps, and says what is under the pointer.
extern const std::string_view kBalanceScript;

}  // namespace ballast
