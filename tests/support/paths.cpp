// SPDX-License-Identifier: Apache-2.0
#include "support/paths.h"

namespace ballast {

const char* const kSourcePath = BALLAST_SOURCE_PATH;
const char* const kBinaryPath = BALLAST_BINARY_PATH;

}  // namespace ballast
