// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_unigram.h"

#include <gtest/gtest.h>

#include "data/tokenizer_json_view.h"
#include "data/tokenizer_samples.h"

namespace ballast {
namespace {

/// The example of the library's documentation.
nlohmann::json letters() {
  nlohmann::json vocab = nlohmann::json::array();
  const std::pair<const char*, double> pieces[] = {{"<unk>", 0}, {"a", 0},  {"b", 0},   {"c", 0},    {"d", 0},
                                                   {"cd", 1},    {"ab", 2}, {"abc", 5}, {"abcd", 10}};
  for (const auto& [piece, score] : pieces) vocab.push_back(nlohmann::json::array({piece, score}));
  return {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocab}};
}

Ids encode_pieces(const nlohmann::json& model, const std::string& word) {
  const UnigramModel unigram(JsonView(model, "tokenizer.json", "model"));
  ModelScratch scratch;
  Ids ids;
  unigram.encode(word, scratch, ids);
  return ids;
}

TEST(Unigram, TakesTheCutWithTheHighestScore) {
  EXPECT_EQ(encode_pieces(letters(), "abcdacdxx"), (Ids{8, 1, 5, 0}));  // abcd a cd, and one unknown for xx
  EXPECT_EQ(encode_pieces(letters(), "abcab"), (Ids{7, 6}));
  nlohmann::json model = letters();
  model["vocab"][8][1] = 5.5;  // against abc + d = 5
  EXPECT_EQ(encode_pieces(model, "abcd"), (Ids{8}));
  model["vocab"][8][1] = 4.5;
  EXPECT_EQ(encode_pieces(model, "abcd"), (Ids{7, 4}));
}

TEST(Unigram, KeepsTheFirstOfEqualCuts) {
  nlohmann::json model = letters();
  model["vocab"][6][1] = 0.0;  // ab = a + b: the way through a reaches the end later and does not beat it
  EXPECT_EQ(encode_pieces(model, "ab"), (Ids{6}));
}

// An unknown character costs the lowest score less ten: -21 here.
TEST(Unigram, PaysForUnknownCharacters) {
  nlohmann::json model = letters();
  model["vocab"].push_back(nlohmann::json::array({"xa", -11.0}));
  model["vocab"][1][1] = 9.5;  // x a costs -21 + 9.5 = -11.5
  EXPECT_EQ(encode_pieces(model, "xa"), (Ids{9}));
  model["vocab"][1][1] = 10.5;
  EXPECT_EQ(encode_pieces(model, "xa"), (Ids{0, 1}));
  EXPECT_EQ(encode_pieces(model,
                          "x\xC3\xA9"
                          "b"),
            (Ids{0, 2}));
}

TEST(Unigram, FallsBackToBytesOnlyIfAllAreThere) {
  nlohmann::json model = letters();
  model["byte_fallback"] = true;
  model["vocab"].push_back(nlohmann::json::array({"<0xC3>", -5.0}));
  EXPECT_EQ(encode_pieces(model, "a\xC3\xA9"), (Ids{1, 0}));
  model["vocab"].push_back(nlohmann::json::array({"<0xA9>", -5.0}));
  EXPECT_EQ(encode_pieces(model, "a\xC3\xA9"), (Ids{1, 9, 10}));
  EXPECT_EQ(encode_pieces(model, "<0xC3>"), (Ids{9})) << "the text of a byte piece";
}

TEST(Unigram, TakesTheLastOfEqualPieces) {
  nlohmann::json model = letters();
  model["vocab"].push_back(nlohmann::json::array({"a", 3.0}));
  EXPECT_EQ(encode_pieces(model, "ab"), (Ids{9, 2}));
}

std::string fault_of(const nlohmann::json& model, const std::string& word = "a") {
  return error_line<DataError>([&] { encode_pieces(model, word); });
}

TEST(Unigram, RefusesBrokenVocabularies) {
  nlohmann::json model = letters();
  model["unk_id"] = 9;
  EXPECT_EQ(fault_of(model), "data: tokenizer.json model.unk_id: is outside the vocabulary; got 9, need less than 9");
  model["unk_id"] = nullptr;
  EXPECT_EQ(fault_of(model), "");
  EXPECT_EQ(fault_of(model, "ax"),
            "data: tokenizer.json model: a character of the text is in no piece, and there is no unk_id; got x; try a "
            "tokenizer with an unknown token");
  model["vocab"][1] = {"a", "0"};
  EXPECT_EQ(fault_of(model),
            "data: tokenizer.json model.vocab[1]: not a piece; got [\"a\",\"0\"], need [\"piece\", score]");
  model["vocab"] = nlohmann::json::array();
  EXPECT_EQ(fault_of(model), "data: tokenizer.json model.vocab: has no pieces");
  model["vocab"] = nlohmann::json::object();
  EXPECT_EQ(fault_of(model), "data: tokenizer.json model.vocab: wrong type; got {}, need an array");
}

}  // namespace
}  // namespace ballast
