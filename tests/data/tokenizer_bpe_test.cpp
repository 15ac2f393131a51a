// SPDX-License-Identifier: Apache-2.0
// Merging by hand: byte b has id b; 256 ab, 257 bc, 258 abc, 259 aa, 260 aaaa.
#include "data/tokenizer_bpe.h"

#include <gtest/gtest.h>

#include <chrono>

#include "data/tokenizer_json_view.h"
#include "data/tokenizer_samples.h"

namespace ballast {
namespace {

Ids encode_word(const nlohmann::json& model, const std::string& word) {
  const BpeModel bpe(JsonView(model, "tokenizer.json", "model"), BpeModel::Units::kBytes);
  ModelScratch scratch;
  Ids ids;
  bpe.encode(word, scratch, ids);
  const Ids first = ids;
  ids.clear();
  bpe.encode(word, scratch, ids);
  EXPECT_EQ(ids, first) << "the word met again";
  return first;
}

nlohmann::json small_model() {
  return small_tokenizer()["model"];
}

TEST(Bpe, MergesTheLowestRankFirstAndTheLeftmostOfEquals) {
  EXPECT_EQ(encode_word(small_model(), "abc"), (Ids{258}));  // ab before bc, then ab + c
  EXPECT_EQ(encode_word(small_model(), "bbc"), (Ids{'b', 257}));
  EXPECT_EQ(encode_word(small_model(), "aaa"), (Ids{259, 'a'}));  // leftmost
  EXPECT_EQ(encode_word(small_model(), "aaaaa"), (Ids{260, 'a'}));
  EXPECT_EQ(encode_word(small_model(), "aab"), (Ids{'a', 256}));  // ab has the lower rank
  EXPECT_EQ(encode_word(small_model(), ""), (Ids{}));
}

TEST(Bpe, ReadsMergesAsPairsAndAsLines) {
  nlohmann::json model = small_model();
  model["merges"] = nlohmann::json::array({"#version: 0.2", "b c"});
  EXPECT_EQ(encode_word(model, "abc"), (Ids{'a', 257}));
  model["merges"] = nlohmann::json::parse(R"([["b", "c"], ["a", "b"]])");
  EXPECT_EQ(encode_word(model, "abc"), (Ids{'a', 257}));
}

TEST(Bpe, TakesAWholeTokenWithIgnoreMergesOnly) {
  nlohmann::json model = small_model();
  model["vocab"]["ca\xC4\xA0"] = 261;  // "ca ", which no merge makes
  EXPECT_EQ(encode_word(model, "ca "), (Ids{'c', 'a', ' '}));
  model["ignore_merges"] = true;
  EXPECT_EQ(encode_word(model, "ca "), (Ids{261}));
  EXPECT_EQ(encode_word(model, "xca "), (Ids{'x', 'c', 'a', ' '}));
}

TEST(Bpe, ReplacesOrLeavesOutBytesWithoutAToken) {
  nlohmann::json model = small_model();
  model["vocab"].erase("x");
  EXPECT_EQ(encode_word(model, "axxb"), (Ids{256}));  // without x the neighbours meet
  model["unk_token"] = "?";
  EXPECT_EQ(encode_word(model, "axxb"), (Ids{'a', '?', '?', 'b'}));
  model["fuse_unk"] = true;
  EXPECT_EQ(encode_word(model, "axxbx"), (Ids{'a', '?', 'b', '?'}));
}

TEST(Bpe, MergesALongWordWithoutSquaringItsLength) {
  const nlohmann::json model = small_model();
  const BpeModel bpe(JsonView(model, "tokenizer.json", "model"), BpeModel::Units::kBytes);
  ModelScratch scratch;
  const auto start = std::chrono::steady_clock::now();
  Ids ids;
  bpe.encode(std::string(1 << 20, 'a'), scratch, ids);
  // Two quadratic passes over 2^20 symbols would be 10^12 steps, a quarter of an hour.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  EXPECT_EQ(ids, Ids(1 << 18, 260));
}

/// Characters: <unk> 0, the mark 1, a 2, b 3, "mark a" 4, "mark a b" 5, ab 6, then <0xC3> 7.
nlohmann::json character_model() {
  return {
      {"type", "BPE"},
      {"unk_token", "<unk>"},
      {"vocab",
       {{"<unk>", 0}, {"\u2581", 1}, {"a", 2}, {"b", 3}, {"\u2581a", 4}, {"\u2581ab", 5}, {"ab", 6}, {"<0xC3>", 7}}},
      {"merges", {"\u2581 a", "a b", "\u2581a b"}}};
}

Ids encode_characters(const nlohmann::json& model, const std::string& text) {
  const BpeModel bpe(JsonView(model, "tokenizer.json", "model"), BpeModel::Units::kCharacters);
  ModelScratch scratch;
  Ids ids;
  bpe.encode(text, scratch, ids);
  return ids;
}

const std::string kMark = "\xE2\x96\x81";

TEST(BpeOfCharacters, MergesAcrossWordsOnlyWhereAMergeSaysSo) {
  nlohmann::json model = character_model();
  EXPECT_EQ(encode_characters(model, kMark + "ab" + kMark + "ab" + kMark), (Ids{5, 5, 1}));
  EXPECT_EQ(encode_characters(model, "ab" + kMark + kMark + "a"), (Ids{6, 1, 4}));
  // A merge of b with the mark of the next word, which comes first.
  model["vocab"]["b\u2581"] = 8;
  model["merges"] = {"b \u2581", "\u2581 a", "a b", "\u2581a b"};
  EXPECT_EQ(encode_characters(model, kMark + "ab" + kMark + "ab"), (Ids{4, 8, 6}));
}

TEST(BpeOfCharacters, FallsBackToBytesOrTheUnknownToken) {
  nlohmann::json model = character_model();
  const std::string text =
      "a\xC3\xA9\xC3\xA9"
      "b";
  EXPECT_EQ(encode_characters(model, text), (Ids{2, 0, 0, 3}));
  model["fuse_unk"] = true;
  EXPECT_EQ(encode_characters(model, text), (Ids{2, 0, 3}));
  model["byte_fallback"] = true;
  EXPECT_EQ(encode_characters(model, text), (Ids{2, 0, 3})) << "<0xA9> is missing";
  model["vocab"]["<0xA9>"] = 8;
  EXPECT_EQ(encode_characters(model, text), (Ids{2, 7, 8, 7, 8, 3}));
  model["unk_token"] = nullptr;
  model["byte_fallback"] = false;
  EXPECT_EQ(encode_characters(model, text), (Ids{6}));
}

}  // namespace
}  // namespace ballast
