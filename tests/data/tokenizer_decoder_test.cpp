// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_decoder.h"

#include <gtest/gtest.h>

#include "data/tokenizer_json_view.h"
#include "data/tokenizer_samples.h"

namespace ballast {
namespace {

using Tokens = std::vector<std::string>;

std::string decode(const nlohmann::json& description, const Tokens& tokens) {
  return TokenDecoder(JsonView(description, "tokenizer.json", "decoder")).decode(tokens);
}

nlohmann::json strip(int start, int stop) {
  return {{"type", "Strip"}, {"content", "H"}, {"start", start}, {"stop", stop}};
}

// The library's own tests of its decoders use these tokens.
TEST(Decoder, TurnsByteTokensIntoText) {
  const nlohmann::json bytes = {{"type", "ByteFallback"}};
  EXPECT_EQ(decode(bytes, {"Hey", "friend!"}), "Heyfriend!");
  EXPECT_EQ(decode(bytes, {"<0x61>"}), "a");
  EXPECT_EQ(decode(bytes, {"<0xE5>"}), "\xEF\xBF\xBD");
  EXPECT_EQ(decode(bytes, {"<0xE5>", "<0x8f>"}), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(decode(bytes, {"<0xE5>", "<0x8f>", "<0xab>"}), "\xE5\x8F\xAB");
  EXPECT_EQ(decode(bytes, {"<0xE5>", "<0x8f>", "<0xab>", "a"}),
            "\xE5\x8F\xAB"
            "a");
  EXPECT_EQ(decode(bytes, {"<0xE5>", "<0x8f>", "a"}),
            "\xEF\xBF\xBD\xEF\xBF\xBD"
            "a");
  EXPECT_EQ(decode(bytes, {"<0xG1>", "<0x6>", "<0x611>"}), "<0xG1><0x6><0x611>");
}

TEST(Decoder, StripsEachTokenUpToACount) {
  EXPECT_EQ(decode(strip(1, 0), {"Hey", " friend!", "HHH"}), "ey friend!HH");
  EXPECT_EQ(decode(strip(0, 1), {"Hey", " friend!H", "HHH"}), "Hey friend!HH");
  EXPECT_EQ(decode(strip(5, 5), {"HH", "aHH"}), "a");
}

TEST(Decoder, ReplacesInEachToken) {
  const nlohmann::json replace = {{"type", "Replace"}, {"pattern", {{"String", "_"}}}, {"content", " "}};
  EXPECT_EQ(decode(replace, {"hello", "_hello", "__"}), "hello hello  ");
  const nlohmann::json regex = {{"type", "Replace"}, {"pattern", {{"Regex", "^_"}}}, {"content", ""}};
  EXPECT_EQ(decode(regex, {"_a", "_b_"}), "ab_");
  EXPECT_EQ(decode(in_sequence("decoders", {{{"type", "Fuse"}}, regex}), {"_a", "_b_"}), "a_b_");
}

TEST(Decoder, LeavesTheFirstMarkOutByTheScheme) {
  nlohmann::json metaspace = {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "always"}};
  EXPECT_EQ(decode(metaspace, {"_Hey", "_friend!"}), "Hey friend!");
  metaspace["prepend_scheme"] = "never";
  EXPECT_EQ(decode(metaspace, {"_Hey", "_friend!"}), " Hey friend!");
}

TEST(Decoder, JoinsBySpacesOnlyWhenThereIsNone) {
  EXPECT_EQ(TokenDecoder().decode({"a", "b"}), "a b");
  EXPECT_EQ(decode({{"type", "Fuse"}}, {"a", "b"}), "ab");
}

}  // namespace
}  // namespace ballast
