// SPDX-License-Identifier: Apache-2.0
#include "data/row_batches.h"

#include <gtest/gtest.h>

#include "data/pipeline_fakes.h"
#include "errors/errors.h"
#include "files/temp_folder.h"

namespace ballast {
namespace {

HostBatch one_row(const PackedRow& row, int64_t length, int32_t pad_id, const TargetRule& rule) {
  HostBatch batch;
  batch.resize(1, length);
  fill_row(batch, 0, row, pad_id, rule);
  return batch;
}

// The packed row of two documents with BOS = 1, EOS = 2, pad = 0 in a row of ten; the figures are a NumPy shift.
const PackedRow kTwoDocuments{{1, 11, 12, 2, 1, 21, 2}, {4, 3}};

TEST(FillRow, MasksTheBorderBetweenDocuments) {
  const HostBatch batch = one_row(kTwoDocuments, 10, 0, {});
  EXPECT_EQ(batch.inputs, (Ids{1, 11, 12, 2, 1, 21, 2, 0, 0, 0}));
  EXPECT_EQ(batch.inputs_segmentation, (Ids{1, 1, 1, 1, 2, 2, 2, 0, 0, 0}));
  EXPECT_EQ(batch.inputs_position, (Ids{0, 1, 2, 3, 0, 1, 2, 0, 0, 0}));
  EXPECT_EQ(batch.targets, (Ids{11, 12, 2, 1, 21, 2, 0, 0, 0, 0}));
  EXPECT_EQ(batch.targets_segmentation, (Ids{1, 1, 1, 0, 2, 2, 0, 0, 0, 0}));
  EXPECT_EQ(batch.loss_tokens(), 5);
}

TEST(FillRow, CountsTheBorderInMaxTextsFormUnlessItsTargetIsBos) {
  const HostBatch counted = one_row(kTwoDocuments, 10, 0, {.across_documents = true, .ignored_target = -1});
  EXPECT_EQ(counted.targets_segmentation, (Ids{1, 1, 1, 2, 2, 2, 0, 0, 0, 0}));
  EXPECT_EQ(counted.loss_tokens(), 6);
  const HostBatch without_bos = one_row(kTwoDocuments, 10, 0, {.across_documents = true, .ignored_target = 1});
  EXPECT_EQ(without_bos.targets_segmentation, (Ids{1, 1, 1, 0, 2, 2, 0, 0, 0, 0}));
  EXPECT_EQ(without_bos.loss_tokens(), 5);
}

TEST(FillRow, EndTokensCountWhenPadIsTheEndToken) {
  const HostBatch batch = one_row(kTwoDocuments, 10, 2, {});
  EXPECT_EQ(batch.targets, (Ids{11, 12, 2, 1, 21, 2, 2, 2, 2, 2}));
  EXPECT_EQ(batch.targets_segmentation, (Ids{1, 1, 1, 0, 2, 2, 0, 0, 0, 0}));
}

TEST(FillRow, ADocumentThatEndsWithTheRowHasNoSegmentBehindIt) {
  const HostBatch batch = one_row({{5, 6, 7, 8}, {4}}, 4, 0, {});
  EXPECT_EQ(batch.inputs_segmentation, (Ids{1, 1, 1, 1}));
  EXPECT_EQ(batch.targets, (Ids{6, 7, 8, 0}));
  EXPECT_EQ(batch.targets_segmentation, (Ids{1, 1, 1, 0}));
}

TEST(HostBatch, CheckNamesRowPositionAndVocabulary) {
  HostBatch batch;
  batch.resize(2, 3);
  EXPECT_NO_THROW(batch.check(5, "data: x"));
  batch.targets[1] = 9;  // does not count
  EXPECT_NO_THROW(batch.check(5, "data: x"));
  batch.inputs[4] = 5;
  EXPECT_NE(error_line<DataError>([&] {
              batch.check(5, "data: x");
            }).find("data: x row 1 position 1: token id 5 is outside vocab_size=5; need 0..4"),
            std::string::npos);
  batch.inputs.pop_back();
  EXPECT_THROW(batch.check(5, "data: x"), DataError);
}

std::unique_ptr<RowBatches> batches_of(size_t num_rows, bool keeps_rest, const std::string& settings = "s") {
  std::vector<PackedRow> rows;
  for (size_t i = 0; i < num_rows; ++i) rows.push_back({{static_cast<int32_t>(i), 1, 2}, {3}});
  RowBatchSettings batch_settings;
  batch_settings.rows = 2;
  batch_settings.length = 4;
  batch_settings.keeps_rest = keeps_rest;
  batch_settings.split = "train";
  batch_settings.settings = settings;
  return std::make_unique<RowBatches>(list_stage(rows), batch_settings);
}

TEST(RowBatches, DropsTheRestInTrainingAndSaysHowMuch) {
  const auto source = batches_of(5, false);
  testing::internal::CaptureStderr();
  EXPECT_EQ(drain(*source).size(), 2u);
  EXPECT_EQ(source->next(), std::nullopt);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "data: split 'train' ends after 5 rows; left out, because they fill no batch of 2 rows: 1 (tokens: 3)\n");
}

TEST(RowBatches, KeepsTheRestInEvaluationWithPaddingRows) {
  const auto source = batches_of(5, true);
  int64_t loss_tokens = 0;
  std::optional<HostBatch> last;
  while (std::optional<HostBatch> batch = source->next()) {
    loss_tokens += batch->loss_tokens();
    last = std::move(batch);
  }
  EXPECT_EQ(loss_tokens, 5 * 2);
  EXPECT_EQ(last->rows, 2);
  EXPECT_EQ(last->inputs_segmentation, (Ids{1, 1, 1, 0, 0, 0, 0, 0}));
}

TEST(RowBatches, RefusesASplitSmallerThanABatch) {
  const auto source = batches_of(1, false);
  EXPECT_NE(error_line<DataError>([&] {
              source->next();
            }).find("split 'train': does not fill one batch; got 3 tokens in rows of 4, need 2 rows"),
            std::string::npos);
}

TEST(RowBatches, ResumesExactlyAndOnlyWithItsOwnSettings) {
  expect_exact_resume([] { return batches_of(9, true); });
  expect_exact_resume([] { return batches_of(9, false); });
  const nlohmann::json state = batches_of(9, true, "rows=2")->state();
  EXPECT_NE(error_line<DataError>([&] {
              batches_of(9, true, "rows=4")->load_state(state);
            }).find("belongs to other data settings; got rows=4, need rows=2"),
            std::string::npos);
}

}  // namespace
}  // namespace ballast
