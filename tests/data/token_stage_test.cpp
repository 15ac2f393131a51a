// SPDX-License-Identifier: Apache-2.0
#include "data/token_stage.h"

#include <gtest/gtest.h>

#include "data/pipeline_fakes.h"
#include "errors/errors.h"
#include "files/temp_folder.h"

namespace ballast {
namespace {

constexpr int32_t kBos = 1;
constexpr int32_t kEos = 2;
constexpr int32_t kA = 10 + 'a';

std::unique_ptr<TokenStage> stage_of(const std::vector<std::string>& texts, int64_t row_length, bool truncates,
                                     bool adds = true) {
  std::vector<Document> documents;
  for (const std::string& text : texts) documents.push_back(text_document(text));
  TokenSettings settings;
  settings.tokenizer = std::make_shared<ByteTokenizer>();
  settings.add_bos = adds;
  settings.add_eos = adds;
  settings.truncates = truncates;
  settings.row_length = row_length;
  settings.vocab_size = 300;
  return std::make_unique<TokenStage>(list_stage(documents), settings);
}

TEST(TokenStage, AddsBosAndEosExactlyOnce) {
  const auto stage = stage_of({"a", "<a", "a>", "<a>", ""}, 8, true);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(stage->next(), (Ids{kBos, kA, kEos})) << i;
  EXPECT_EQ(stage->next(), (Ids{kBos, kEos}));
  EXPECT_EQ(stage->next(), std::nullopt);
}

TEST(TokenStage, AddsNothingWhenToldSoAndLeavesOutEmptyDocuments) {
  const auto stage = stage_of({"", "a", ""}, 8, true, false);
  EXPECT_EQ(stage->next(), (Ids{kA}));
  EXPECT_EQ(stage->next(), std::nullopt);
}

TEST(TokenStage, TruncationCutsTheEnd) {
  const auto stage = stage_of({"abcdef", "ab"}, 4, true);
  EXPECT_EQ(stage->next(), (Ids{kBos, kA, kA + 1, kA + 2}));
  EXPECT_EQ(stage->next(), (Ids{kBos, kA, kA + 1, kEos}));  // exactly a row
  EXPECT_EQ(stage->next(), std::nullopt);
}

TEST(TokenStage, WithoutTruncationEveryTokenButTheFirstIsATargetOnce) {
  // [B a b c] [c d e f] [f E]: within the pieces the targets are a b c, d e f, E.
  const auto stage = stage_of({"abcdef"}, 4, false);
  EXPECT_EQ(stage->next(), (Ids{kBos, kA, kA + 1, kA + 2}));
  EXPECT_EQ(stage->next(), (Ids{kA + 2, kA + 3, kA + 4, kA + 5}));
  EXPECT_EQ(stage->next(), (Ids{kA + 5, kEos}));
  EXPECT_EQ(stage->next(), std::nullopt);
}

TEST(TokenStage, ResumesInsideALongDocument) {
  expect_exact_resume([] { return stage_of({"abcdefghijkl", "a", "", "abcdefg"}, 4, false); });
  expect_exact_resume([] { return stage_of({"abcdefghijkl", "a", "", "abcdefg"}, 4, true); });
}

TEST(TokenStage, TakesIdsAsTheyAreAndChecksThem) {
  Document good = text_document("", 4);
  good.ids = {0, 7, 99};
  Document bad = text_document("", 5);
  bad.ids = {3, 100};
  TokenSettings settings;
  settings.row_length = 8;
  settings.vocab_size = 100;
  TokenStage stage(list_stage<Document>({good, bad}), settings);
  EXPECT_EQ(stage.next(), (Ids{0, 7, 99}));
  EXPECT_EQ(error_line<DataError>([&] { stage.next(); }),
            "data: list row 5 position 1: token id 100 is outside vocab_size=100; need 0..99; try a larger vocab_size "
            "or another tokenizer");
}

TEST(TokenStage, RefusesATokenizerLargerThanTheVocabulary) {
  TokenSettings settings;
  settings.tokenizer = std::make_shared<ByteTokenizer>();
  settings.row_length = 8;
  settings.vocab_size = 265;
  EXPECT_NE(error_line<DataError>([&] {
              TokenStage(list_stage<Document>({}), settings);
            }).find("got vocab_size=265, need 266 or more"),
            std::string::npos);
}

}  // namespace
}  // namespace ballast
