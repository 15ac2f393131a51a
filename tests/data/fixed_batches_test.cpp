// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "data/batch_filters.h"
#include "data/pipeline_fakes.h"
#include "data/recorded.h"
#include "data/synthetic.h"
#include "errors/errors.h"
#include "files/temp_folder.h"

namespace ballast {
namespace {

TEST(SyntheticSource, GivesOneFixedBatchWithoutEnd) {
  SyntheticSource source({.rows = 2, .length = 4, .vocab_size = 100});
  const HostBatch batch = *source.next();
  // The first ten draws below 100 of a Python version of the generator.
  EXPECT_EQ(batch.inputs, (Ids{1, 10, 71, 37, 86, 75, 72, 91}));
  EXPECT_EQ(batch.targets, (Ids{10, 71, 37, 90, 75, 72, 91, 42}));
  EXPECT_EQ(batch.inputs_position, (Ids{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(batch.inputs_segmentation, Ids(8, 1));
  EXPECT_EQ(batch.targets_segmentation, Ids(8, 1));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(show(*source.next()), show(batch));
}

TEST(SyntheticSource, DrawsDocumentBordersUpToTheLimit) {
  SyntheticSource source({.rows = 64, .length = 32, .vocab_size = 100, .max_documents = 4});
  const HostBatch batch = *source.next();
  std::vector<int> rows_with(5, 0);
  for (int64_t row = 0; row < batch.rows; ++row) {
    const int32_t* segment = batch.inputs_segmentation.data() + row * batch.length;
    for (int64_t t = 1; t < batch.length; ++t) {
      const bool continues = segment[t] == segment[t - 1];
      EXPECT_TRUE(continues || segment[t] == segment[t - 1] + 1);
      EXPECT_EQ(batch.targets_segmentation[row * batch.length + t - 1], continues ? segment[t] : 0);
      EXPECT_EQ(batch.inputs_position[row * batch.length + t],
                continues ? batch.inputs_position[row * batch.length + t - 1] + 1 : 0);
    }
    EXPECT_EQ(segment[0], 1);
    ASSERT_LE(segment[batch.length - 1], 4);
    ++rows_with[static_cast<size_t>(segment[batch.length - 1])];
  }
  for (int n = 1; n <= 4; ++n) EXPECT_GT(rows_with[static_cast<size_t>(n)], 0) << n << " documents";
}

class RecordedSourceTest : public testing::Test {
 protected:
  void write(const std::vector<int32_t>& tokens, const std::vector<int64_t>& shape,
             const std::vector<int32_t>& segments = {}) {
    std::vector<TensorBytes> tensors = {{{"batches", StoredType::kI32, shape}, std::as_bytes(std::span(tokens))}};
    if (!segments.empty()) {
      tensors.push_back({{"segments", StoredType::kI32, shape}, std::as_bytes(std::span(segments))});
    }
    write_safetensors(path(), tensors);
  }
  std::filesystem::path path() const { return folder_ / "batches.safetensors"; }
  RecordedSource open(int64_t rows, int64_t length) const { return RecordedSource({path(), rows, length, 50}); }
  std::string fault(int64_t rows, int64_t length) const {
    return error_line<DataError>([&] { open(rows, length); });
  }

  TempFolder folder_;
};

TEST_F(RecordedSourceTest, StepSUsesEntryS) {
  write({1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16}, {2, 2, 3});
  RecordedSource source = open(2, 2);
  const HostBatch first = *source.next();
  EXPECT_EQ(first.inputs, (Ids{1, 2, 4, 5}));
  EXPECT_EQ(first.targets, (Ids{2, 3, 5, 6}));
  EXPECT_EQ(first.inputs_segmentation, Ids(4, 1));
  EXPECT_EQ(first.loss_tokens(), 4);
  EXPECT_EQ(source.next()->inputs, (Ids{11, 12, 14, 15}));
  EXPECT_EQ(source.next(), std::nullopt);
}

TEST_F(RecordedSourceTest, SegmentsDecideWhatCountsAndWherePositionsRestart) {
  write({1, 2, 3, 4, 5, 6, 7}, {1, 1, 7}, {1, 1, 2, 2, 2, 0, 0});
  const HostBatch batch = *open(1, 6).next();
  EXPECT_EQ(batch.inputs_segmentation, (Ids{1, 1, 2, 2, 2, 0}));
  EXPECT_EQ(batch.inputs_position, (Ids{0, 1, 0, 1, 2, 0}));
  EXPECT_EQ(batch.targets_segmentation, (Ids{1, 0, 2, 2, 0, 0}));
}

TEST_F(RecordedSourceTest, ResumesExactly) {
  std::vector<int32_t> tokens(5 * 2 * 4);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i);
  write(tokens, {5, 2, 4});
  expect_exact_resume([&] { return std::make_unique<RecordedSource>(RecordedSettings{path(), 2, 3, 50}); });
}

TEST_F(RecordedSourceTest, NamesWhatDoesNotFit) {
  EXPECT_NE(fault(1, 2).find("cannot be opened"), std::string::npos);
  write({1, 2, 3, 4, 50, 6}, {2, 1, 3});
  EXPECT_NE(fault(1, 2).find("step 1 row 0 position 1: token id 50 is outside vocab_size=50; need 0..49"),
            std::string::npos);
  EXPECT_NE(fault(2, 2).find("tensor 'batches' does not fit the run; got I32 [2, 1, 3], need I32 [steps >= 1, 2, 3]"),
            std::string::npos);
  EXPECT_NE(fault(1, 3).find("need I32 [steps >= 1, 1, 4]"), std::string::npos);
  write({1, 2, 3}, {1, 1, 3}, {1, -1, 1});
  EXPECT_NE(fault(1, 2).find("step 0 row 0 position 1: a segment number is negative"), std::string::npos);
  const std::vector<int64_t> wide = {1, 2, 3};
  write_safetensors(path(), {{{"batches", StoredType::kI64, {1, 1, 3}}, std::as_bytes(std::span(wide))}});
  EXPECT_NE(fault(1, 2).find("got I64 [1, 1, 3]"), std::string::npos);
  write_safetensors(path(), {{{"tokens", StoredType::kI64, {1, 1, 3}}, std::as_bytes(std::span(wide))}});
  EXPECT_NE(fault(1, 2).find("has no tensor 'batches'"), std::string::npos);
  folder_.write("batches.safetensors", "rubbish that is no table");
  EXPECT_NE(fault(1, 2).find("data: "), std::string::npos);
}

TEST_F(RecordedSourceTest, AroundItRowBlocksRepetitionAndPaddingWork) {
  write({1, 2, 3, 4, 11, 12, 13, 14}, {2, 2, 2});
  const auto source = [&] { return std::make_unique<RecordedSource>(RecordedSettings{path(), 2, 1, 50}); };
  RowBlockSource block(source(), 1, 2);
  EXPECT_EQ(block.next()->inputs, Ids{3});
  EXPECT_EQ(block.next()->targets, Ids{14});
  EXPECT_EQ(block.next(), std::nullopt);
  RepeatFirstSource repeat(source());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(repeat.next()->inputs, (Ids{1, 3}));
  EndlessPaddingSource endless(source(), 2, 1);
  drain(endless, 2);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(endless.next()->inputs_segmentation, (Ids{0, 0}));
  const auto make_block = [&] { return std::make_unique<RowBlockSource>(source(), 1, 2); };
  expect_exact_resume(make_block);
  expect_exact_resume([&] { return std::make_unique<RepeatFirstSource>(source()); }, 5);
  expect_exact_resume([&] { return std::make_unique<EndlessPaddingSource>(source(), 2, 1); }, 5);
}

}  // namespace
}  // namespace ballast
