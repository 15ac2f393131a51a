// SPDX-License-Identifier: Apache-2.0
// A step without a single target: pytorch/pytorch#70348, OpenRLHF/OpenRLHF#583, nvidia-cosmos/cosmos-rl#155.
#include <cmath>

#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

constexpr int kWidth = 33;  // tokens of a row of 32 positions

Ids repeated(const Ids& ids, int count) {
  Ids result;
  for (int i = 0; i < count; ++i) result.insert(result.end(), ids.begin(), ids.end());
  return result;
}

std::vector<nlohmann::json> train(const Ids& segments, int rows, const Words& more) {
  const ProgramFolder folder;
  const Ids tokens = repeated(some_ids(kWidth), static_cast<int>(segments.size()) / kWidth);
  write_recorded(folder.path() / "rows.safetensors", rows, kWidth - 1, tokens, segments);
  Words words = {"dataset_type=recorded", "recorded_batches_path=rows.safetensors", "steps=3"};
  return records_of(folder, tiny_run(joined(words, more)));
}

Ids counting_segments() {
  Ids segments;
  for (int t = 0; t < kWidth; ++t) segments.push_back(t + 1);
  return segments;
}

TEST(PyTorch70348, AStepWithoutTargetsHasLossZeroAndIsReported) {
  const Ids all(kWidth, 1), padding(kWidth, 0);
  for (const Ids& without : {padding, counting_segments()}) {
    Ids segments = repeated(all, 2);
    for (const Ids& step : {repeated(without, 2), repeated(all, 2)}) {
      segments.insert(segments.end(), step.begin(), step.end());
    }
    const auto records = train(segments, 2, {"warmup_steps_fraction=0"});
    ASSERT_EQ(records.size(), 3U);
    EXPECT_EQ(series(records, "learning/total_weights"), (std::vector<double>{64, 0, 64}));
    EXPECT_EQ(records[1].at("learning/loss"), 0.0);
    EXPECT_EQ(records[1].at("learning/raw_grad_norm"), 0.0);
    for (const nlohmann::json& record : records) EXPECT_FALSE(record.contains("non_finite")) << record;
    EXPECT_TRUE(std::isfinite(records[2].at("learning/param_norm").get<double>()));
    EXPECT_LT(records[2].at("learning/loss").get<double>(), records[0].at("learning/loss").get<double>());
  }
}

// Row 1 alone against row 1 beside a micro-batch without targets: nothing is added to the sum or to the count.
TEST(PyTorch70348, AnEmptyMicroBatchChangesNothing) {
  const Ids all(kWidth, 1);
  Ids beside_padding;
  for (int step = 0; step < 3; ++step) {
    for (const Ids& row : {all, Ids(kWidth, 0)}) {
      beside_padding.insert(beside_padding.end(), row.begin(), row.end());
    }
  }
  const auto alone = train(repeated(all, 3), 1, {"per_device_batch_size=1"});
  const auto beside = train(beside_padding, 2, {"per_device_batch_size=1", "gradient_accumulation_steps=2"});
  for (const char* tag : {"learning/loss", "learning/raw_grad_norm", "learning/param_norm"}) {
    expect_near(beside, alone, tag, 1e-6);
  }
}

}  // namespace
}  // namespace ballast::testing
