// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_utf8.h"

#include <gtest/gtest.h>

#include "data/tokenizer_byte_alphabet.h"

namespace ballast {
namespace {

const std::string kFffd = "\xEF\xBF\xBD";

std::string repaired(const std::string& bytes) {
  std::string storage;
  return std::string(valid_utf8(bytes, storage));
}

TEST(Utf8, KeepsValidTextInPlace) {
  const std::string text = "plain, long enough for words of eight; \xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80";
  std::string storage;
  EXPECT_EQ(valid_utf8(text, storage).data(), text.data());
}

// The Unicode Standard, section 3.9, tables 3-8 to 3-11.
TEST(Utf8, ReplacesEachMaximalSubpart) {
  EXPECT_EQ(repaired("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82"
                     "A"),
            kFffd + kFffd + kFffd + kFffd + kFffd + kFffd + kFffd + kFffd + "A");
  EXPECT_EQ(repaired("\xED\xA0\x80\xED\xBF\xBF\xED\xAF"
                     "A"),
            kFffd + kFffd + kFffd + kFffd + kFffd + kFffd + kFffd + kFffd + "A");
  EXPECT_EQ(repaired("\xF4\x91\x92\x93\xFF"
                     "A\x80\xBF"
                     "B"),
            kFffd + kFffd + kFffd + kFffd + kFffd + "A" + kFffd + kFffd + "B");
  EXPECT_EQ(repaired("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"
                     "A"),
            kFffd + kFffd + kFffd + kFffd + "A");
}

TEST(Utf8, ClassesCharactersForAddedTokens) {
  for (const char32_t c : {U' ', U'\t', U'\x85', U'\u00A0', U'\u2028', U'\u3000'}) EXPECT_TRUE(is_white_space(c));
  for (const char32_t c : {U'a', U'\u180E', U'\u200B', U'\uFEFF'}) EXPECT_FALSE(is_white_space(c));
  for (const char32_t c : {U'a', U'_', U'7', U'\u0301', U'\u4E2D', U'\u2167', U'\u24B6', U'\u200D'}) {
    EXPECT_TRUE(is_word_character(c)) << static_cast<uint32_t>(c);
  }
  for (const char32_t c : {U'-', U' ', U'\u00BD', U'\u2028', U'$'}) EXPECT_FALSE(is_word_character(c));
}

TEST(ByteAlphabet, SpellsBytesAsGpt2Does) {
  EXPECT_EQ(byte_character('!'), "!");
  EXPECT_EQ(byte_character(' '), "\xC4\xA0");   // U+0120
  EXPECT_EQ(byte_character('\n'), "\xC4\x8A");  // U+010A
  EXPECT_EQ(byte_character(0x7F), "\xC4\xA1");  // U+0121
  EXPECT_EQ(byte_character(0xAD), "\xC5\x83");  // U+0143, the last of the 68
  EXPECT_EQ(byte_character(0xFF), "\xC3\xBF");  // itself
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(token_bytes(byte_character(static_cast<uint8_t>(byte))), std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(token_bytes("a b"), std::nullopt);
  EXPECT_EQ(token_bytes("\xE4\xB8\xAD"), std::nullopt);
}

}  // namespace
}  // namespace ballast
