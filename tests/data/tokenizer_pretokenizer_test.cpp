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
  pre_tokenizer.cut(text, list);
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

TEST(PreTokenizer, MustEndInByteLevel) {
  const auto line = [](const nlohmann::json& description) {
    return error_line<DataError>([&] { cut(description, "a"); });
  };
  EXPECT_EQ(line(regex_split("-", "Removed")),
            "data: tokenizer.json pre_tokenizer: the pre-tokenizer does not end in ByteLevel; got Split, need a "
            "byte-level BPE tokenizer");
  EXPECT_EQ(line(in_sequence("pretokenizers", {byte_level(true), regex_split("-", "Removed")})),
            "data: tokenizer.json pre_tokenizer.pretokenizers[1]: ByteLevel must be the last pre-tokenizer; got Split "
            "after it");
  EXPECT_EQ(line({{"type", "Metaspace"}}),
            "data: tokenizer.json pre_tokenizer.type: this component is not supported; got Metaspace, need ByteLevel, "
            "Split, Digits or Sequence");
  EXPECT_NE(
      line(in_sequence("pretokenizers", {regex_split("-", "Glued")})).find("behavior: unknown behavior; got Glued"),
      std::string::npos);
}

}  // namespace
}  // namespace ballast
