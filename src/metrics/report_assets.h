// SPDX-License-Identifier: Apache-2.0
// Style sheet and script of the report page.
#pragma once

#include <string_view>

namespace ballast {

extern const std::string_view kReportStyle;
/// Shows the values at the step under the pointer, or moved to by the arrow keys, in all charts at once.
extern const std::string_view kReportScript;

}  // namespace ballast
