// SPDX-License-Identifier: Apache-2.0
// Base64 (RFC 4648, section 4), as in tiktoken's rank files and the normalizers of tokenizer.json.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ballast {

/// The bytes of padded base64; empty when the text is none (another character, wrong length or padding).
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace ballast
