// SPDX-License-Identifier: Apache-2.0
// UTF-8 as the tokenizer needs it: repair, single characters, and the two character classes of added tokens.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ballast {

/// U+2581, which stands for a space in vocabularies of SentencePiece kind.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

/// One step through bytes that should be UTF-8.
struct Utf8Step {
  size_t bytes;  ///< length of the character, or of the ill-formed part that one U+FFFD stands for; at least 1
  bool valid;
};

/// Reads the front of `text`, which must not be empty. An ill-formed part is as long as the Unicode standard's
/// "maximal subpart" (section 3.9), the rule of Rust's String::from_utf8_lossy and of Python's errors="replace".
Utf8Step utf8_step(std::string_view text);

/// `text` itself when it is valid UTF-8, else a view of `storage`, filled with a copy that has U+FFFD in place of
/// each ill-formed part.
std::string_view valid_utf8(std::string_view text, std::string& storage);

/// Code point at the front of valid, non-empty UTF-8.
char32_t first_code_point(std::string_view text);

/// The last character of valid, non-empty UTF-8.
std::string_view last_character(std::string_view text);

/// Appends the UTF-8 form of a code point.
void append_utf8(char32_t code_point, std::string& out);

/// Unicode property White_Space.
bool is_white_space(char32_t code_point);

/// `\w` of Unicode TR 18: alphabetic, mark, decimal number, connector punctuation, join control.
bool is_word_character(char32_t code_point);

}  // namespace ballast
