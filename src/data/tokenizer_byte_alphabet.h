// SPDX-License-Identifier: Apache-2.0
// GPT-2's alphabet: a printable character for each of the 256 bytes, in which byte-level vocabularies are written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ballast {

/// UTF-8 of the character that stands for `byte`: itself for `!`..`~`, U+00A1..U+00AC and U+00AE..U+00FF; the other
/// 68 bytes, in order, are U+0100, U+0101 ... (a space is U+0120).
/// @source openai/gpt-2 src/encoder.py, bytes_to_unicode
std::string byte_character(uint8_t byte);

/// The bytes `token` spells; empty when a character is outside the alphabet, as in many special tokens.
std::optional<std::string> token_bytes(std::string_view token);

}  // namespace ballast
