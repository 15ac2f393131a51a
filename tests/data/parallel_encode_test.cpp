// SPDX-License-Identifier: Apache-2.0
#include "data/parallel_encode.h"

#include <gtest/gtest.h>

#include <string>

#include "data/tokenizer_samples.h"
#include "files/parallel.h"

namespace ballast {
namespace {

/// Texts of very different lengths; some longer than a thread's share, some empty.
std::vector<std::string> sample_texts() {
  std::vector<std::string> texts;
  for (size_t i = 0; i < 300; ++i) {
    const size_t words = i % 50 == 7 ? 40000 : i % 13;
    std::string text;
    for (size_t k = 0; k < words; ++k) text += (k * i) % 3 == 0 ? "abc" : "aab ";
    texts.push_back(std::move(text));
  }
  return texts;
}

TEST(EncodeAll, GivesTheSameIdsForEveryNumberOfThreads) {
  const auto tokenizer = load(small_tokenizer());
  const std::vector<std::string> texts = sample_texts();
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const auto expected = encode_all(*tokenizer, views, false, 1);
  ASSERT_EQ(expected.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) ASSERT_EQ(expected[i], tokenizer->encode(texts[i], false));
  for (const size_t threads : {2, 3, 8, 1000}) EXPECT_EQ(encode_all(*tokenizer, views, false, threads), expected);
  EXPECT_TRUE(encode_all(*tokenizer, {}, false, 4).empty());
  EXPECT_GE(num_processors(), 1U);
}

class FailingTokenizer : public Tokenizer {
 public:
  Ids encode(std::string_view text, bool) const override {
    if (text.starts_with("bad")) throw DataError({std::string(text), "refused", "", "", ""});
    return {1};
  }
  std::string decode(std::span<const int32_t>, bool) const override { return ""; }
  int64_t vocab_size() const override { return 2; }
  std::optional<int32_t> token_to_id(std::string_view) const override { return std::nullopt; }
  std::optional<int32_t> bos_id() const override { return std::nullopt; }
  std::optional<int32_t> eos_id() const override { return std::nullopt; }
  std::optional<int32_t> pad_id() const override { return std::nullopt; }
  std::optional<int32_t> unk_id() const override { return std::nullopt; }
  std::string_view type() const override { return "huggingface"; }
};

TEST(EncodeAll, ReportsTheFirstTextThatFails) {
  std::vector<std::string> texts(200, std::string(10000, 'x'));
  texts[150] = "bad 150";
  texts[40] = "bad 40";
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  for (const size_t threads : {1, 4}) {
    EXPECT_EQ(error_line<DataError>([&] { encode_all(FailingTokenizer(), views, false, threads); }), "bad 40: refused");
  }
}

TEST(AddBosAndEos, NeverDoubles) {
  nlohmann::json description = small_tokenizer();
  const nlohmann::json special = {{"special", true}};
  description["added_tokens"] = {added_token(300, "<s>", special), added_token(301, "</s>", special)};
  const auto tokenizer = load(description);
  const auto framed = [&](Ids ids, bool bos, bool eos) {
    add_bos_and_eos(ids, *tokenizer, bos, eos);
    return ids;
  };
  EXPECT_EQ(framed({97}, true, true), (Ids{300, 97, 301}));
  EXPECT_EQ(framed({300, 97, 301}, true, true), (Ids{300, 97, 301}));
  EXPECT_EQ(framed({97, 301}, true, true), (Ids{300, 97, 301}));
  EXPECT_EQ(framed({}, true, true), (Ids{300, 301}));
  EXPECT_EQ(framed({97}, false, true), (Ids{97, 301}));
  EXPECT_EQ(framed({97}, true, false), (Ids{300, 97}));
  const auto without = load(small_tokenizer());
  Ids ids = {97};
  add_bos_and_eos(ids, *without, true, true);
  EXPECT_EQ(ids, (Ids{97}));
}

}  // namespace
}  // namespace ballast
