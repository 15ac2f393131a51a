// SPDX-License-Identifier: Apache-2.0
// Added tokens in a tokenizer whose other ids are bytes (tokenizer_samples.h).
#include "data/tokenizer_added_tokens.h"

#include <gtest/gtest.h>

#include "data/tokenizer_samples.h"

namespace ballast {
namespace {

Ids encode(const std::vector<nlohmann::json>& added_tokens, const std::string& text,
           const nlohmann::json& normalizer = nullptr) {
  nlohmann::json description = small_tokenizer();
  description["added_tokens"] = added_tokens;
  description["normalizer"] = normalizer;
  return load(description)->encode(text, false);
}

TEST(AddedTokens, MatchLeftmostThenLongest) {
  const std::vector<nlohmann::json> tokens = {added_token(300, "<a"), added_token(301, "<a>"),
                                              added_token(302, "a>x>")};
  EXPECT_EQ(encode(tokens, "<a><a"), (Ids{301, 300}));
  EXPECT_EQ(encode(tokens, "<a>x>"), (Ids{301, 'x', '>'}));  // the longer one starts later
  EXPECT_EQ(encode(tokens, "a>x>"), (Ids{302}));
}

TEST(AddedTokens, KeepMergesApart) {
  EXPECT_EQ(encode({added_token(300, "<>")}, "a<>b"), (Ids{'a', 300, 'b'}));
  EXPECT_EQ(encode({added_token(258, "abc")}, "aabcb"), (Ids{'a', 258, 'b'}));  // an id of the vocabulary
}

TEST(AddedTokens, SwallowWhiteSpaceWhereTheyStrip) {
  const std::string text = "a \n<x>\xE3\x80\x80 b";  // U+3000 is white space
  EXPECT_EQ(encode({added_token(300, "<x>", {{"lstrip", true}})}, text), (Ids{'a', 300, 0xE3, 0x80, 0x80, ' ', 'b'}));
  EXPECT_EQ(encode({added_token(300, "<x>", {{"rstrip", true}})}, text), (Ids{'a', ' ', '\n', 300, 'b'}));
  EXPECT_EQ(encode({added_token(300, "<x>", {{"lstrip", true}, {"rstrip", true}})}, "<x> <x>"), (Ids{300, 300}));
}

TEST(AddedTokens, SwallowASpaceTokenWhole) {
  const nlohmann::json strips = {{"lstrip", true}, {"rstrip", true}};
  EXPECT_EQ(encode({added_token(300, " ", strips)}, "a   b"), (Ids{'a', 300, 'b'}));
}

TEST(AddedTokens, StandAloneAsSingleWords) {
  const std::vector<nlohmann::json> tokens = {added_token(300, "the", {{"single_word", true}})};
  EXPECT_EQ(encode(tokens, "the,the"), (Ids{300, ',', 300}));
  EXPECT_EQ(encode(tokens, "the_"), byte_ids("the_"));
  EXPECT_EQ(encode(tokens, "\xC3\xA9the"), byte_ids("\xC3\xA9the"));
  EXPECT_EQ(encode(tokens, "the\xCC\x81"), byte_ids("the\xCC\x81"));  // a mark is a word character
}

TEST(AddedTokens, AreSoughtBeforeOrAfterNormalising) {
  const nlohmann::json lower = {{"type", "Lowercase"}};
  const std::vector<nlohmann::json> raw = {added_token(300, "<X>")};
  EXPECT_EQ(encode(raw, "<X><x>", lower), (Ids{300, '<', 'x', '>'}));
  const std::vector<nlohmann::json> normalized = {added_token(300, "<X>", {{"normalized", true}})};
  EXPECT_EQ(encode(normalized, "<X><x>Q", lower), (Ids{300, 300, 'q'}));
}

TEST(AddedTokens, DecodeToTheirTextOrNotAtAll) {
  nlohmann::json description = small_tokenizer();
  description["added_tokens"] = {added_token(300, "<X>", {{"special", true}}), added_token(301, "<Y>"),
                                 added_token(302, "<Z>", {{"normalized", true}})};
  description["normalizer"] = {{"type", "Lowercase"}};
  const auto tokenizer = load(description);
  EXPECT_EQ(tokenizer->decode(Ids{300, 'a', 301, 302}, false), "<X>a<Y><z>");
  EXPECT_EQ(tokenizer->decode(Ids{300, 'a', 301, 302}, true), "a<Y><z>");
}

}  // namespace
}  // namespace ballast
