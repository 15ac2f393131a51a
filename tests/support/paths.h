// SPDX-License-Identifier: Apache-2.0
// Where the checkout and the build folder lie. Tests write BALLAST_SOURCE_DIR and BALLAST_BINARY_DIR.
#pragma once

namespace ballast {

extern const char* const kSourcePath;
extern const char* const kBinaryPath;

}  // namespace ballast
