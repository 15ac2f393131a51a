// SPDX-License-Identifier: Apache-2.0
// How vocabularies write bytes: GPT-2's alphabet, a printable character for each of the 256, and SentencePiece's
// <0xNN>.
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

/// `<0x41>`, SentencePiece's token for a byte.
std::string byte_token(uint8_t byte);

/// The byte that a token of this form stands for; digits above 9 in either case.
std::optional<uint8_t> byte_of_token(std::string_view token);

}  // namespace ballast
