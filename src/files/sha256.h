// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), for fingerprints of files.
#pragma once

#include <string>
#include <string_view>

namespace ballast {

/// Digest of `bytes` as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace ballast
