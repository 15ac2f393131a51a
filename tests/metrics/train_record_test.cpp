// SPDX-License-Identifier: Apache-2.0
#include "metrics/train_record.h"

#include <gtest/gtest.h>

namespace ballast {
namespace {

// Two counted tokens with ce .342349582 and .440189699, z .054866016 and .118349052 (z_loss_multiplier .01).
StepNumbers two_tokens() {
  StepNumbers numbers;
  numbers.step = 3;
  numbers.loss = 0.477877174;
  numbers.ce_sum = 0.342349582 + 0.440189699;
  numbers.z_sum = 0.054866016 + 0.118349052;
  numbers.target_weight_sum = 2;
  numbers.learning_rate = 1e-3;
  numbers.step_seconds = 0.5;
  return numbers;
}

TEST(TrainRecord, KeepsZLossOutOfLmLossAndPerplexity) {
  const Record record = train_record(two_tokens());
  EXPECT_EQ(record.kind, "train");
  EXPECT_EQ(record.step, 3);
  EXPECT_NEAR(*record.get("learning/loss"), 0.477877174, 1e-9);
  EXPECT_NEAR(*record.get("learning/lm_loss"), 0.391269640, 2e-9);
  EXPECT_NEAR(*record.get("learning/perplexity"), 1.478857219, 2e-9);
  EXPECT_NEAR(*record.get("learning/z_loss"), 0.086607534, 1e-9);
  EXPECT_EQ(record.get("learning/total_weights"), 2.0);
  EXPECT_EQ(record.get("learning/current_learning_rate"), 1e-3);
}

TEST(TrainRecord, WritesZerosForLossesThatAreOffAndLeavesOutOtherAbsentValues) {
  const Record record = train_record(two_tokens());
  for (const char* tag : {"learning/moe_lb_loss", "learning/indexer_loss", "learning/mtp_loss"}) {
    EXPECT_EQ(record.get(tag), 0.0) << tag;
  }
  for (const char* tag :
       {"learning/dpo_loss", "learning/reward_accuracy", "learning/raw_grad_norm", "learning/max_logits",
        "optim/step_skipped", "perf/per_device_tflops", "perf/per_device_tokens", "perf/mfu"}) {
    EXPECT_FALSE(record.get(tag).has_value()) << tag;
  }
}

TEST(TrainRecord, HasNoLmLossWhereNoCrossEntropyIsTrained) {
  StepNumbers numbers = two_tokens();
  numbers.has_lm_loss = false;
  const Record record = train_record(numbers);
  EXPECT_FALSE(record.get("learning/lm_loss").has_value());
  EXPECT_FALSE(record.get("learning/perplexity").has_value());
}

TEST(TrainRecord, StaysFiniteWithoutCountedTargets) {
  StepNumbers numbers;
  numbers.step_seconds = 1;
  const Record record = train_record(numbers);
  EXPECT_EQ(record.get("learning/lm_loss"), 0.0);
  EXPECT_EQ(record.get("learning/perplexity"), 1.0);
}

// 200 TFLOP and 4096 positions in .5 s on a device with a peak of 989 TFLOP/s.
TEST(TrainRecord, TurnsWorkIntoRates) {
  StepNumbers numbers = two_tokens();
  numbers.tflops = 200;
  numbers.tokens = 4096;
  numbers.peak_tflops = 989;
  const Record record = train_record(numbers);
  EXPECT_EQ(record.get("perf/step_time_seconds"), 0.5);
  EXPECT_EQ(record.get("perf/per_device_tflops"), 200.0);
  EXPECT_EQ(record.get("perf/per_device_tflops_per_sec"), 400.0);
  EXPECT_EQ(record.get("perf/per_device_tokens"), 4096.0);
  EXPECT_EQ(record.get("perf/per_device_tokens_per_sec"), 8192.0);
  EXPECT_NEAR(*record.get("perf/mfu"), 0.404448938, 1e-9);
}

TEST(TrainRecord, AppendsFurtherTagsInTheirOrder) {
  StepNumbers numbers = two_tokens();
  numbers.is_step_skipped = true;
  numbers.more = {{"learning/moe_load_variance/layer_000", 0.5}, {"learning/moe_load_variance_mean", 0.5}};
  const Record record = train_record(numbers);
  EXPECT_EQ(record.get("optim/step_skipped"), 1.0);
  ASSERT_GE(record.scalars.size(), 2u);
  EXPECT_EQ(record.scalars[record.scalars.size() - 2].first, "learning/moe_load_variance/layer_000");
  EXPECT_EQ(record.scalars.back().first, "learning/moe_load_variance_mean");
}

}  // namespace
}  // namespace ballast
