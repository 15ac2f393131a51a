// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_normalizer.h"

#include <gtest/gtest.h>

#include "data/tokenizer_json_view.h"
#include "data/tokenizer_samples.h"

namespace ballast {
namespace {

std::string normalize(const nlohmann::json& description, std::string text) {
  Normalizer(JsonView(description, "tokenizer.json", "normalizer")).apply(text);
  return text;
}

// Unicode Standard Annex 15, figures 3 to 6: A with ring, s with two dots, the ligature fi, two to the power five.
TEST(Normalizer, PutsTextIntoTheFourUnicodeForms) {
  const std::string text = "\xE2\x84\xAB s\xCC\x87\xCC\xA3 \xEF\xAC\x81 2\xE2\x81\xB5";
  EXPECT_EQ(normalize({{"type", "NFC"}}, text), "\xC3\x85 \xE1\xB9\xA9 \xEF\xAC\x81 2\xE2\x81\xB5");
  EXPECT_EQ(normalize({{"type", "NFD"}}, text), "A\xCC\x8A s\xCC\xA3\xCC\x87 \xEF\xAC\x81 2\xE2\x81\xB5");
  EXPECT_EQ(normalize({{"type", "NFKC"}}, text), "\xC3\x85 \xE1\xB9\xA9 fi 25");
  EXPECT_EQ(normalize({{"type", "NFKD"}}, text), "A\xCC\x8A s\xCC\xA3\xCC\x87 fi 25");
}

TEST(Normalizer, LeavesTextInFormAlone) {
  const std::string latin = "na\xC3\xAFve \xC5\xBF";  // composed, below U+0300
  EXPECT_EQ(normalize({{"type", "NFC"}}, latin), latin);
  EXPECT_EQ(normalize({{"type", "NFKC"}}, latin), "na\xC3\xAFve s");
  EXPECT_EQ(normalize({{"type", "NFD"}}, "plain"), "plain");
  EXPECT_EQ(normalize({{"type", "NFC"}}, std::string("a\0\xCC\x81", 4)), std::string("a\0\xCC\x81", 4));
}

TEST(Normalizer, LowersEachCharacterByItself) {
  EXPECT_EQ(normalize({{"type", "Lowercase"}}, "AB\xC3\x89\xCE\xA3"), "ab\xC3\xA9\xCF\x83");  // no final sigma
  EXPECT_EQ(normalize({{"type", "Lowercase"}}, "\xC4\xB0"), "i\xCC\x87");
}

TEST(Normalizer, ReplacesMatches) {
  const nlohmann::json runs = {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", "_"}};
  EXPECT_EQ(normalize(runs, "a b   c  "), "a b_c_");
  const nlohmann::json fixed = {{"type", "Replace"}, {"pattern", {{"String", "."}}}, {"content", ""}};
  EXPECT_EQ(normalize(fixed, ".a.b"), "ab");
}

TEST(Normalizer, RunsASequenceInOrder) {
  const nlohmann::json to_b = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "b"}};
  const nlohmann::json lower = {{"type", "Lowercase"}};
  EXPECT_EQ(normalize(in_sequence("normalizers", {to_b, lower}), "Aa"), "ab");
  EXPECT_EQ(normalize(in_sequence("normalizers", {lower, to_b}), "Aa"), "bb");
}

TEST(Normalizer, PutsATextInFrontOfWhatIsThere) {
  const nlohmann::json prepend = {{"type", "Prepend"}, {"prepend", "_"}};
  EXPECT_EQ(normalize(prepend, "a"), "_a");
  EXPECT_EQ(normalize(prepend, ""), "");
}

TEST(Normalizer, StripsWhiteSpaceFromTheSidesAskedFor) {
  const auto strip = [](bool left, bool right) -> nlohmann::json {
    return {{"type", "Strip"}, {"strip_left", left}, {"strip_right", right}};
  };
  const std::string text = " \xE3\x80\x80 a b\n\xC2\xA0";  // an ideographic and a no-break space
  EXPECT_EQ(normalize(strip(true, true), text), "a b");
  EXPECT_EQ(normalize(strip(true, false), text), "a b\n\xC2\xA0");
  EXPECT_EQ(normalize(strip(false, true), text), " \xE3\x80\x80 a b");
  EXPECT_EQ(normalize(strip(true, true), " \n "), "");
}

TEST(Normalizer, StripsAccentsOfDecomposedText) {
  EXPECT_EQ(normalize({{"type", "StripAccents"}}, "llamo\xCC\x81 \xC3\xB3"), "llamo \xC3\xB3");
  EXPECT_EQ(normalize(in_sequence("normalizers", {{{"type", "NFD"}}, {{"type", "StripAccents"}}}), "\xC3\xB3"), "o");
}

TEST(Normalizer, CleansControlsAsForTranslation) {
  EXPECT_EQ(normalize({{"type", "Nmt"}},
                      "a\x01\x7F\tb\r\xE2\x80\x8B\xEF\xBB\xBF"
                      "c"),
            "a b   c");
}

}  // namespace
}  // namespace ballast
