// SPDX-License-Identifier: Apache-2.0
// Broken tokenizer files: one line that names the file and the place in it.
#include <gtest/gtest.h>

#include <functional>

#include "data/tokenizer_samples.h"

namespace ballast {
namespace {

/// The error line of a file with this content, without the file's folder; empty if it loads.
std::string fault_of(const std::string& content) {
  const TempFolder folder;
  const std::string file = folder.write("tokenizer.json", content).string();
  std::string line = error_line<DataError>([&] { load_tokenizer(file); });
  const size_t place = line.find(folder.path().string());
  if (place != std::string::npos) line.erase(place, folder.path().string().size() + 1);
  return line;
}

struct BrokenCase {
  const char* name;
  std::function<void(nlohmann::json&)> breaks;
  std::string line;
};

class BrokenTokenizer : public testing::TestWithParam<BrokenCase> {};

TEST_P(BrokenTokenizer, IsRefusedByPath) {
  nlohmann::json description = small_tokenizer();
  GetParam().breaks(description);
  EXPECT_EQ(fault_of(description.dump()), "data: tokenizer.json" + GetParam().line);
}

using Json = nlohmann::json;
const BrokenCase kBroken[] = {
    {"NoModel", [](Json& d) { d.erase("model"); }, ": has no member model"},
    {"OtherModel", [](Json& d) { d["model"]["type"] = "WordPiece"; },
     " model.type: this component is not supported; got WordPiece, need BPE or Unigram"},
    {"UnigramOfBytes", [](Json& d) { d["model"]["type"] = "Unigram"; },
     " model: a Unigram model works on characters; got a pre_tokenizer that ends in ByteLevel"},
    {"VocabIsAList", [](Json& d) { d["model"]["vocab"] = Json::array(); },
     " model.vocab: wrong type; got array, need an object of token: id"},
    {"IdIsText", [](Json& d) { d["model"]["vocab"]["ab"] = "256"; },
     " model.vocab.ab: wrong type; got \"256\", need a token id (integer in 0..2147483646)"},
    {"IdIsNegative", [](Json& d) { d["model"]["vocab"]["ab"] = -1; },
     " model.vocab.ab: wrong type; got -1, need a token id (integer in 0..2147483646)"},
    {"IdIsTooLarge", [](Json& d) { d["model"]["vocab"]["ab"] = 2147483647; },
     " model.vocab.ab: wrong type; got 2147483647, need a token id (integer in 0..2147483646)"},
    {"IdTwice", [](Json& d) { d["model"]["vocab"]["bc"] = 256; },
     " model.vocab.bc: id belongs to token \"ab\" as well; got 256"},
    {"MergeOfUnknown", [](Json& d) { d["model"]["merges"][1] = "b zz"; },
     " model.merges[1]: token \"zz\" is not in model.vocab; got b + zz"},
    {"MergeToUnknown", [](Json& d) { d["model"]["merges"][1] = Json{"c", "b"}; },
     " model.merges[1]: token \"cb\" is not in model.vocab; got c + b"},
    {"MergeOfThree", [](Json& d) { d["model"]["merges"][0] = "a b c"; },
     " model.merges[0]: not a merge; got \"a b c\", need \"left right\" or [\"left\", \"right\"]"},
    {"MergesAreAnObject", [](Json& d) { d["model"]["merges"] = Json::object(); },
     " model.merges: wrong type; got {}, need an array"},
    {"UnknownUnk", [](Json& d) { d["model"]["unk_token"] = "<unk>"; },
     " model.unk_token: token is not in model.vocab; got <unk>"},
    {"ByteFallback",
     [](Json& d) {
       d["model"]["byte_fallback"] = true;
       d["model"]["vocab"].erase("x");
     },
     " model.byte_fallback: is not supported for a byte-level vocabulary that lacks bytes; got true, need false"},
    {"Dropout", [](Json& d) { d["model"]["dropout"] = 0.1; },
     " model.dropout: merges cannot be dropped at random; got 0.1, need null"},
    {"WordSuffix", [](Json& d) { d["model"]["end_of_word_suffix"] = "</w>"; },
     " model.end_of_word_suffix: is not supported; got \"</w>\", need null or \"\""},
    {"OtherPreTokenizer", [](Json& d) { d["pre_tokenizer"] = {{"type", "UnicodeScripts"}}; },
     " pre_tokenizer.type: this component is not supported; got UnicodeScripts, need ByteLevel, Metaspace, Split, "
     "Digits, Punctuation, Whitespace, WhitespaceSplit, CharDelimiterSplit or Sequence"},
    {"BadExpression",
     [](Json& d) {
       d["pre_tokenizer"] = in_sequence("pretokenizers", {regex_split("a(b", "Isolated"), byte_level(false)});
     },
     " pre_tokenizer.pretokenizers[0].pattern.Regex: the regular expression does not compile: missing closing "
     "parenthesis; got a(b, need an expression in Oniguruma's syntax"},
    {"EmptyPattern",
     [](Json& d) { d["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", ""}}}, {"content", "x"}}; },
     " normalizer.pattern.String: an empty text is found everywhere; got \"\", need a text of one character or more"},
    {"UnknownPattern",
     [](Json& d) { d["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Glob", "*"}}}, {"content", "x"}}; },
     " normalizer.pattern: unknown kind of pattern; need {\"String\": text} or {\"Regex\": expression}"},
    {"OtherNormalizer", [](Json& d) { d["normalizer"] = {{"type", "BertNormalizer"}}; },
     " normalizer.type: this component is not supported; got BertNormalizer, need NFC, NFD, NFKC, NFKD, Lowercase, "
     "Replace, Prepend, Strip, StripAccents, Nmt, Precompiled or Sequence"},
    {"MapIsNoBase64", [](Json& d) { d["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "a-b="}}; },
     " normalizer.precompiled_charsmap: is not base64"},
    {"MapIsCutOff", [](Json& d) { d["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "ALQCAACE"}}; },
     " normalizer.precompiled_charsmap: is not a character map of SentencePiece; got 6 bytes"},
    {"MarkOfTwo", [](Json& d) { d["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "__"}}; },
     " pre_tokenizer.replacement: is not one character; got \"__\""},
    {"UnknownScheme",
     [](Json& d) { d["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "last"}}; },
     " pre_tokenizer.prepend_scheme: unknown scheme; got last, need always, first or never"},
    {"OtherDecoder", [](Json& d) { d["decoder"] = {{"type", "WordPiece"}}; },
     " decoder.type: this component is not supported; got WordPiece, need ByteLevel, ByteFallback, Fuse, "
     "Strip, Replace, Metaspace or Sequence"},
    {"StripOfMinusOne",
     [](Json& d) { d["decoder"] = {{"type", "Strip"}, {"content", " "}, {"start", -1}, {"stop", 0}}; },
     " decoder.start: wrong type; got -1, need a number from 0"},
    {"OtherPostProcessor", [](Json& d) { d["post_processor"] = {{"type", "Concat"}}; },
     " post_processor.type: this component is not supported; got Concat, need TemplateProcessing, RobertaProcessing, "
     "BertProcessing, ByteLevel or Sequence"},
    {"HalfABertToken",
     [](Json& d) {
       d["post_processor"] = {{"type", "BertProcessing"}, {"cls", Json::array({"[CLS]"})}, {"sep", {"[SEP]", 2}}};
     },
     " post_processor.cls: not a token with its id; got [\"[CLS]\"], need [\"token\", id]"},
    {"TemplateWithoutText",
     [](Json& d) {
       d["post_processor"] = {{"type", "TemplateProcessing"}, {"single", Json::array()}, {"special_tokens", {}}};
     },
     " post_processor.single: the template has no place for the text; need one Sequence A"},
    {"TemplateOfUnknown",
     [](Json& d) {
       d["post_processor"] = {{"type", "TemplateProcessing"},
                              {"single", Json::array({{{"SpecialToken", {{"id", "<s>"}}}}})},
                              {"special_tokens", Json::object()}};
     },
     " post_processor.special_tokens: has no member <s>"},
    {"AddedIsNoList", [](Json& d) { d["added_tokens"] = 7; }, " added_tokens: wrong type; got 7, need an array"},
    {"AddedTwice", [](Json& d) { d["added_tokens"] = {added_token(300, "<x>"), added_token(301, "<x>")}; },
     " added_tokens[1].content: token appears twice; got <x>"},
    {"AddedIdTwice", [](Json& d) { d["added_tokens"] = {added_token(300, "<x>"), added_token(300, "<y>")}; },
     " added_tokens[1].id: id belongs to added token \"<x>\"; got 300"},
    {"AddedIdTaken", [](Json& d) { d["added_tokens"] = Json::array({added_token(256, "<x>")}); },
     " added_tokens[0].id: id belongs to token \"ab\" of model.vocab; got 256"},
    {"AddedWithOtherId", [](Json& d) { d["added_tokens"] = Json::array({added_token(300, "ab")}); },
     " added_tokens[0].id: token \"ab\" has another id in model.vocab; got 300, need 256"},
    {"AddedIsEmpty", [](Json& d) { d["added_tokens"] = Json::array({added_token(300, "")}); },
     " added_tokens[0].content: an added token has no text"},
    {"FlagIsText", [](Json& d) { d["added_tokens"] = Json::array({added_token(300, "<x>", {{"lstrip", "yes"}})}); },
     " added_tokens[0].lstrip: wrong type; got \"yes\", need true or false"},
};

INSTANTIATE_TEST_SUITE_P(Fault, BrokenTokenizer, testing::ValuesIn(kBroken),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(TokenizerFile, MustBeACompleteJsonDocument) {
  EXPECT_EQ(fault_of("[]"), "data: tokenizer.json: wrong type; got [], need an object");
  EXPECT_NE(fault_of("").find("data: tokenizer.json: is not valid JSON"), std::string::npos);
  EXPECT_NE(fault_of("\xFF\xFE").find("is not valid JSON"), std::string::npos);
  const std::string whole = small_tokenizer().dump();
  ASSERT_EQ(fault_of(whole), "");
  for (size_t length = 0; length < whole.size(); length += 97) {
    EXPECT_NE(fault_of(whole.substr(0, length)).find("is not valid JSON; got a fault at byte"), std::string::npos);
  }
}

TEST(TokenizerFile, MustExist) {
  const TempFolder folder;
  const std::string empty = folder.path().string();
  EXPECT_EQ(
      error_line<DataError>([&] { load_tokenizer(empty); }),
      "data: " + empty +
          ": the folder has no tokenizer; need a tokenizer.json, tokenizer.model, spiece.model or *.tiktoken in it");
  const std::string absent = empty + "/absent.json";
  EXPECT_EQ(error_line<DataError>([&] { load_tokenizer(absent); }).find("data: " + absent + ": no such tokenizer"), 0u);
}

TEST(TokenizerConfigFile, IsCheckedToo) {
  const TempFolder folder;
  folder.write("tokenizer.json", small_tokenizer().dump());
  folder.write("tokenizer_config.json", R"({"bos_token": 5})");
  const std::string path = folder.path().string();
  EXPECT_EQ(error_line<DataError>([&] { load_tokenizer(path); }),
            "data: " + path + "/tokenizer_config.json bos_token: wrong type; got 5, need a string");
}

}  // namespace
}  // namespace ballast
