// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_byte_alphabet.h"

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdio>

#include "data/tokenizer_utf8.h"

namespace ballast {
namespace {

constexpr size_t kAlphabetEnd = 256 + 68;

struct ByteAlphabet {
  std::array<char32_t, 256> character_of_byte{};
  std::array<int16_t, kAlphabetEnd> byte_of_character{};

  constexpr ByteAlphabet() {
    byte_of_character.fill(-1);
    char32_t next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const bool is_printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
      const char32_t character = is_printable ? static_cast<char32_t>(byte) : next++;
      character_of_byte[static_cast<size_t>(byte)] = character;
      byte_of_character[character] = static_cast<int16_t>(byte);
    }
  }
};
constexpr ByteAlphabet kAlphabet;

}  // namespace

std::string byte_character(uint8_t byte) {
  std::string text;
  append_utf8(kAlphabet.character_of_byte[byte], text);
  return text;
}

std::optional<std::string> token_bytes(std::string_view token) {
  std::string bytes;
  while (!token.empty()) {
    const char32_t character = first_code_point(token);
    if (character >= kAlphabetEnd || kAlphabet.byte_of_character[character] < 0) return std::nullopt;
    bytes += static_cast<char>(kAlphabet.byte_of_character[character]);
    token.remove_prefix(utf8_step(token).bytes);
  }
  return bytes;
}

std::string byte_token(uint8_t byte) {
  char text[8];
  std::snprintf(text, sizeof(text), "<0x%02X>", byte);
  return text;
}

std::optional<uint8_t> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  uint8_t byte = 0;
  const char* end = token.data() + 5;
  const auto [rest, error] = std::from_chars(token.data() + 3, end, byte, 16);
  if (error != std::errc() || rest != end) return std::nullopt;
  return byte;
}

}  // namespace ballast
