// SPDX-License-Identifier: Apache-2.0
// Expected lines: MaxText's format strings filled in by hand.
#include "metrics/console.h"

#include <gtest/gtest.h>

#include <limits>

namespace ballast {
namespace {

Record dense_step() {
  Record record{"train", 12, {}};
  record.set("learning/loss", 3.21);
  record.set("learning/lm_loss", 3.2);
  record.set("learning/perplexity", 24.5325302);
  record.set("learning/total_weights", 8192);
  record.set("perf/step_time_seconds", 1.2344);
  record.set("perf/per_device_tflops_per_sec", 12.345);
  record.set("perf/per_device_tokens_per_sec", 678.901);
  return record;
}

Record evaluation() {
  Record record{"eval", 100, {}};
  record.set("eval/total_weights", 30720);
  record.set("eval/avg_loss", 3);
  record.set("eval/avg_perplexity", 20.085536923);
  record.set("eval/avg_z_loss", 0.009333333);
  record.set("eval/avg_moe_lb_loss", 0.0212);
  record.set("eval/avg_mtp_loss", 0.25);
  record.set("eval/avg_mtp_acceptance_rate_percent", 71.239);
  record.set("eval/avg_indexer_loss", 0.125);
  return record;
}

ConsoleOptions everything() {
  ConsoleOptions options;
  options.has_experts = options.has_mtp = options.has_indexer = true;
  return options;
}

TEST(TrainLine, HasTheDensePartsInOrder) {
  EXPECT_EQ(train_line(dense_step(), {}),
            "completed step: 12, seconds: 1.234, TFLOP/s/device: 12.345, Tokens/s/device: 678.901, "
            "total_weights: 8192, loss: 3.210, lm_loss: 3.200, perplexity: 24.533");
}

TEST(TrainLine, AppendsThePartsOfExpertsMtpAndIndexer) {
  Record record = dense_step();
  record.set("learning/moe_lb_loss", 0.0123456);
  record.set("learning/mtp_loss", 0.21);
  record.set("learning/indexer_loss", 0.00125);
  EXPECT_EQ(train_line(record, everything()),
            "completed step: 12, seconds: 1.234, TFLOP/s/device: 12.345, Tokens/s/device: 678.901, "
            "total_weights: 8192, loss: 3.210, lm_loss: 3.200, perplexity: 24.533, moe_lb_loss: 0.012346, "
            "main_model_loss: 3.000, mtp_loss: 0.210, indexer_loss: 0.00125");
}

TEST(TrainLine, PutsPreferencePartsBeforeTheExpertPart) {
  Record record = dense_step();
  record.set("learning/dpo_loss", 0.6931);
  record.set("learning/reward_accuracy", 0.5);
  ConsoleOptions options;
  options.has_experts = true;
  const std::string line = train_line(record, options);
  EXPECT_NE(line.find("perplexity: 24.533, dpo_loss: 0.693, reward_accuracy: 0.500, moe_lb_loss: 0.000000"),
            std::string::npos)
      << line;
}

TEST(TrainLine, MarksTheRampUpAndDropsItsRates) {
  ConsoleOptions options;
  options.rampup_end_step = 13;
  EXPECT_EQ(train_line(dense_step(), options),
            "[Rampup Batch Size Phase], completed step: 12, seconds: 1.234, total_weights: 8192, loss: 3.210, "
            "lm_loss: 3.200, perplexity: 24.533");
  options.rampup_end_step = 12;
  EXPECT_EQ(train_line(dense_step(), options), train_line(dense_step(), {}));
}

TEST(TrainLine, PrintsNanPlainly) {
  Record record = dense_step();
  record.set("learning/loss", -std::numeric_limits<double>::quiet_NaN());
  EXPECT_NE(train_line(record, {}).find(", loss: nan, "), std::string::npos) << train_line(record, {});
}

TEST(EvalLines, FollowTheRunningEvaluation) {
  EXPECT_EQ(eval_start_line(100), "Starting eval after train step 100");
  EXPECT_EQ(eval_step_line(3, 0.1234, evaluation(), {}),
            "Completed eval step: 3, seconds: 0.123, running loss=3.000, running perplexity=20.086, "
            "running total_weights=30720.0");
  EXPECT_EQ(eval_step_line(3, 0.1234, evaluation(), everything()),
            "Completed eval step: 3, seconds: 0.123, running loss=3.000, running perplexity=20.086, "
            "running total_weights=30720.0, running mtp_loss=0.250, running mtp_acceptance_rate=71.24%");
}

TEST(EvalLines, SumUpTheEvaluation) {
  EXPECT_EQ(eval_summary_line(evaluation(), {}),
            "Completed eval after train step 100, loss=3.000, perplexity=20.086, total_weights=30720.0, "
            "avg_z_loss=0.009");
  Record record = evaluation();
  record.set("eval/avg_dpo_reward_accuracy", 2.0 / 3);
  EXPECT_EQ(eval_summary_line(record, everything()),
            "Completed eval after train step 100, loss=3.000, perplexity=20.086, total_weights=30720.0, "
            "avg_z_loss=0.009, avg_moe_lb_loss=0.021, avg_mtp_loss=0.250, avg_mtp_acceptance_rate=71.24%, "
            "dpo_reward_accuracy=0.667, avg_indexer_loss=0.125");
}

TEST(StartLines, TellParametersWorkAndWhereTheCurvesAre) {
  EXPECT_EQ(tensorboard_line("out/r/tensorboard/"), "To see full metrics 'tensorboard --logdir=out/r/tensorboard/'");
  EXPECT_EQ(parameter_line(596049920), "number parameters: 0.596 billion");
  FlopCount flops;
  flops.total = 764.6674;
  flops.weights = 722.9;
  flops.attention = 41.7674;
  EXPECT_EQ(
      flops_lines(flops),
      "Per train step:\n Total TFLOPs: 764.67 \n split as 94.54% learnable weight flops and 5.46% attention flops");
}

}  // namespace
}  // namespace ballast
