// SPDX-License-Identifier: Apache-2.0
#include "data/document_shuffle.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "data/pipeline_fakes.h"
#include "errors/errors.h"
#include "files/temp_folder.h"

namespace ballast {
namespace {

/// Files with `counts[i]` documents each, named by their number over all files.
class DocumentShuffleTest : public testing::Test {
 protected:
  void write(const std::vector<int>& counts) {
    int number = 0;
    for (size_t file = 0; file < counts.size(); ++file) {
      std::string lines;
      for (int i = 0; i < counts[file]; ++i) lines += "{\"text\":\"" + std::to_string(number++) + "\"}\n";
      paths_.push_back(folder_.write("f" + std::to_string(file) + ".jsonl", lines));
    }
  }
  std::unique_ptr<DocumentShuffle> make(const ShuffleSettings& settings) const {
    return std::make_unique<DocumentShuffle>(std::make_unique<DocumentReader>(DocumentFiles{
                                                 paths_, {"text", false}, "train", settings.is_on, settings.seed}),
                                             settings);
  }

  TempFolder folder_;
  std::vector<std::filesystem::path> paths_;
};

std::vector<std::string> numbers(int first, int end) {
  std::vector<std::string> list;
  for (int i = first; i < end; ++i) list.push_back(std::to_string(i) + "[]");
  return list;
}

std::vector<std::string> sorted(std::vector<std::string> list) {
  std::sort(list.begin(), list.end());
  return list;
}

TEST_F(DocumentShuffleTest, KeepsTheOrderWhenItIsOff) {
  write({3, 0, 4});
  EXPECT_EQ(drain(*make({false, 2, 0, 1})), numbers(0, 7));
}

TEST_F(DocumentShuffleTest, EachEpochHoldsEveryDocumentOnceInAnOrderOfItsOwn) {
  write({13, 20, 7});
  const std::vector<std::string> all = drain(*make({true, 16, 5, 3}));
  ASSERT_EQ(all.size(), 120u);
  std::vector<std::vector<std::string>> epochs;
  for (int epoch = 0; epoch < 3; ++epoch) {
    epochs.emplace_back(all.begin() + 40 * epoch, all.begin() + 40 * (epoch + 1));
    EXPECT_EQ(sorted(epochs.back()), sorted(numbers(0, 40)));
    EXPECT_NE(epochs.back(), numbers(0, 40));
  }
  EXPECT_NE(epochs[0], epochs[1]);
  // Epoch e of seed s is epoch 0 of seed s + e.
  EXPECT_EQ(epochs[1], drain(*make({true, 16, 6, 1})));
  EXPECT_EQ(epochs[2], drain(*make({true, 16, 7, 1})));
}

TEST_F(DocumentShuffleTest, ResumesExactlyOverEpochBorders) {
  write({3, 5});
  expect_exact_resume([&] { return make({true, 3, 1, 2}); });
  expect_exact_resume([&] { return make({true, 100, 1, 3}); });
  expect_exact_resume([&] { return make({false, 4, 0, 2}); });
}

TEST_F(DocumentShuffleTest, NamesASplitWithoutDocuments) {
  write({0, 0});
  const auto stage = make({true, 3, 1, 2});
  EXPECT_NE(error_line<DataError>([&] { stage->next(); }).find("split 'train': holds no documents"), std::string::npos);
}

TEST_F(DocumentShuffleTest, RefusesAPositionInOtherFiles) {
  write({3, 5});
  const auto stage = make({true, 3, 1, 2});
  stage->next();
  const nlohmann::json state = stage->state();
  folder_.write("f1.jsonl", "{\"text\":\"changed\"}\n");
  EXPECT_NE(error_line<DataError>([&] { make({true, 3, 1, 2})->load_state(state); }).find("the files have changed"),
            std::string::npos);
}

}  // namespace
}  // namespace ballast
