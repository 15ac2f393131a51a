// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_utf8.h"

#include <utf8proc.h>

#include <cstdint>
#include <cstring>

namespace ballast {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

uint8_t byte_at(std::string_view text, size_t i) {
  return static_cast<uint8_t>(text[i]);
}

/// Length of the ASCII run at the front of `text`, eight bytes at a time.
size_t ascii_prefix(std::string_view text) {
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    if (word & 0x8080808080808080u) break;
  }
  while (i < text.size() && byte_at(text, i) < 0x80) ++i;
  return i;
}

size_t valid_prefix(std::string_view text) {
  size_t i = 0;
  while (true) {
    i += ascii_prefix(text.substr(i));
    if (i == text.size()) return i;
    const Utf8Step step = utf8_step(text.substr(i));
    if (!step.valid) return i;
    i += step.bytes;
  }
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  const uint8_t lead = byte_at(text, 0);
  if (lead < 0x80) return {1, true};
  if (lead < 0xC2 || lead > 0xF4) return {1, false};
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range leaves out overlong forms, surrogates and what lies above U+10FFFF.
  uint8_t low = 0x80, high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size() || byte_at(text, i) < low || byte_at(text, i) > high) return {i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true};
}

std::string_view valid_utf8(std::string_view text, std::string& storage) {
  size_t good = valid_prefix(text);
  if (good == text.size()) return text;
  storage.clear();
  while (true) {
    storage.append(text.substr(0, good));
    text.remove_prefix(good);
    if (text.empty()) return storage;
    storage.append(kReplacement);
    text.remove_prefix(utf8_step(text).bytes);
    good = valid_prefix(text);
  }
}

char32_t first_code_point(std::string_view text) {
  utf8proc_int32_t code_point = 0;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &code_point);
  return static_cast<char32_t>(code_point);
}

std::string_view last_character(std::string_view text) {
  size_t start = text.size() - 1;
  while (start > 0 && (byte_at(text, start) & 0xC0) == 0x80) --start;
  return text.substr(start);
}

void append_utf8(char32_t code_point, std::string& out) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_word_character(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    case UTF8PROC_CATEGORY_SO:  // the circled and squared letters, alphabetic by Other_Alphabetic
      return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
             (c >= 0x1F170 && c <= 0x1F189);
    default:
      return c == 0x200C || c == 0x200D;
  }
}

}  // namespace ballast
