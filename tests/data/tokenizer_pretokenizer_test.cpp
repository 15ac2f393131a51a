// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_pretokenizer.h"

#include <gtest/gtest.h>

#include "data/tokenizer_json_view.h"
#include "data/tokenizer_samples.h"

namespace ballast {
namespace {

using Words = std::vector<std::string>;

Words cut(const nlohmann::json& description, const std::string& text) {
  const PreTokenizer pre_tokenizer(JsonView(description, "tokenizer.json", "pre_tokenizer"));
  WordList list;
  pre_tokenizer.cut(text, /*is_start=*/true, list);
  return Words(list.words.begin(), list.words.end());
}

Words split(const nlohmann::json& step, const std::string& text) {
  return cut(in_sequence("pretokenizers", {step, byte_level(false)}), text);
}

// The library's own documentation shows these five on this text.
TEST(Split, TreatsDelimitersByItsBehavior) {
  const std::string text = "the-final--countdown";
  EXPECT_EQ(split(regex_split("-", "Removed"), text), (Words{"the", "final", "countdown"}));
  EXPECT_EQ(split(regex_split("-", "Isolated"), text), (Words{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(split(regex_split("-", "MergedWithPrevious"), text), (Words{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(split(regex_split("-", "MergedWithNext"), text), (Words{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(split(regex_split("-", "Contiguous"), text), (Words{"the", "-", "final", "--", "countdown"}));
}

TEST(Split, TakesTheRestAsDelimiterWhenInverted) {
  EXPECT_EQ(split(regex_split("\\w+", "Removed", true), "ab, cd"), (Words{"ab", "cd"}));
  EXPECT_EQ(split(regex_split("\\w+", "MergedWithPrevious", true), ",ab, cd"), (Words{",", "ab, ", "cd"}));
}

TEST(Split, FindsAFixedText) {
  nlohmann::json step = regex_split("", "Removed");
  step["pattern"] = {{"String", ".b"}};
  EXPECT_EQ(split(step, "a.bcb.b"), (Words{"a", "cb"}));
}

TEST(Digits, StandAloneOrTogether) {
  EXPECT_EQ(split({{"type", "Digits"}, {"individual_digits", true}}, "a12\xC2\xBD"),
            (Words{"a", "1", "2", "\xC2\xBD"}));
  EXPECT_EQ(split({{"type", "Digits"}, {"individual_digits", false}}, "a12b"), (Words{"a", "12", "b"}));
}

TEST(ByteLevel, CutsLikeGpt2) {
  EXPECT_EQ(cut(byte_level(true), "I've  2 cats!\n\n ok "),
            (Words{"I", "'ve", " ", " 2", " cats", "!", "\n\n", " ok", " "}));
  EXPECT_EQ(cut(byte_level(false), "I've  2"), (Words{"I've  2"}));
  EXPECT_EQ(cut(byte_level(true), ""), (Words{}));
}

TEST(ByteLevel, PutsASpaceBeforeEachPieceWithoutOne) {
  nlohmann::json spaced = byte_level(true);
  spaced["add_prefix_space"] = true;
  EXPECT_EQ(cut(spaced, "a b"), (Words{" a", " b"}));
  EXPECT_EQ(cut(spaced, " a"), (Words{" a"}));
  EXPECT_EQ(cut(in_sequence("pretokenizers", {regex_split("-", "Removed"), spaced}), "a- b-c"),
            (Words{" a", " b", " c"}));
}

TEST(PreTokenizer, RefusesStepsAfterByteLevelAndUnknownNames) {
  const auto line = [](const nlohmann::json& description) {
    return error_line<DataError>([&] { cut(description, "a"); });
  };
  EXPECT_EQ(line(in_sequence("pretokenizers", {byte_level(true), regex_split("-", "Removed")})),
            "data: tokenizer.json pre_tokenizer.pretokenizers[1]: ByteLevel must be the last pre-tokenizer; got Split "
            "after it");
  EXPECT_NE(
      line(in_sequence("pretokenizers", {regex_split("-", "Glued")})).find("behavior: unknown behavior; got Glued"),
      std::string::npos);
}

nlohmann::json metaspace(const std::string& scheme, bool splits = true) {
  return {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", scheme}, {"split", splits}};
}

TEST(Metaspace, PutsItsMarkInFrontByTheScheme) {
  EXPECT_EQ(cut(metaspace("always"), "ab  c d"), (Words{"_ab", "_", "_c", "_d"}));
  EXPECT_EQ(cut(metaspace("always"), " ab_c"), (Words{"_ab", "_c"}));
  EXPECT_EQ(cut(metaspace("never"), "ab c"), (Words{"ab", "_c"}));
  EXPECT_EQ(cut(metaspace("always", false), "ab c"), (Words{"_ab_c"}));
  EXPECT_EQ(cut(metaspace("always"), ""), (Words{}));
  const nlohmann::json dash = regex_split("-", "Isolated");
  EXPECT_EQ(cut(in_sequence("pretokenizers", {dash, metaspace("first")}), "a-b c"), (Words{"_a", "-", "b", "_c"}));
  EXPECT_EQ(cut(in_sequence("pretokenizers", {dash, metaspace("always")}), "a-b"), (Words{"_a", "_-", "_b"}));
}

TEST(Metaspace, KnowsTheStartOfTheDocumentOnly) {
  const nlohmann::json description = metaspace("first");
  const PreTokenizer pre_tokenizer(JsonView(description, "tokenizer.json", "pre_tokenizer"));
  WordList list;
  pre_tokenizer.cut("ab c", /*is_start=*/false, list);
  EXPECT_EQ(Words(list.words.begin(), list.words.end()), (Words{"ab", "_c"}));
}

// The examples of the library's documentation of its pre-tokenizers.
TEST(PreTokenizer, CutsAtWhiteSpacePunctuationAndDelimiters) {
  EXPECT_EQ(cut({{"type", "WhitespaceSplit"}}, "Hello there!\n x"), (Words{"Hello", "there!", "x"}));
  EXPECT_EQ(cut({{"type", "Whitespace"}}, "Hello there!"), (Words{"Hello", "there", "!"}));
  EXPECT_EQ(cut({{"type", "Punctuation"}}, "Hello?! a$"), (Words{"Hello", "?", "!", " a", "$"}));
  EXPECT_EQ(cut({{"type", "CharDelimiterSplit"}, {"delimiter", "x"}}, "axxbxc"), (Words{"a", "b", "c"}));
  EXPECT_EQ(cut({{"type", "Digits"}, {"individual_digits", false}}, "Call 123 please"),
            (Words{"Call ", "123", " please"}));
  EXPECT_EQ(PreTokenizer().ends_in_bytes(), false);
}

}  // namespace
}  // namespace ballast
