// SPDX-License-Identifier: Apache-2.0
#include "metrics/eval_totals.h"

#include <gtest/gtest.h>

#include <cmath>

#include "errors/errors.h"

namespace ballast {
namespace {

EvalBatch batch(double ce_sum, double z_sum, double target_weight_sum) {
  EvalBatch result;
  result.ce_sum = ce_sum;
  result.z_sum = z_sum;
  result.target_weight_sum = target_weight_sum;
  return result;
}

// Sums (10, 4), (30, 10), (5, 1) and z sums .02, .09, .03: 45/15 = 3, exp(3), .14/15.
TEST(EvalTotals, WeightsBatchesByTheirCountedTargets) {
  EvalTotals totals;
  totals.add(batch(10, 0.02, 4));
  totals.add(batch(30, 0.09, 10));
  totals.add(batch(5, 0.03, 1));
  const Record record = totals.record(7);
  EXPECT_EQ(record.kind, "eval");
  EXPECT_EQ(record.step, 7);
  EXPECT_EQ(record.get("eval/total_loss"), 45.0);
  EXPECT_EQ(record.get("eval/total_weights"), 15.0);
  EXPECT_EQ(record.get("eval/avg_loss"), 3.0);
  EXPECT_NEAR(*record.get("eval/avg_perplexity"), 20.085536923, 1e-9);
  EXPECT_NEAR(*record.get("eval/avg_z_loss"), 0.009333333, 1e-9);
  EXPECT_NEAR(*record.get("eval/z_loss"), 0.14, 1e-12);
}

TEST(EvalTotals, AveragesAuxiliaryTermsOverBatches) {
  EvalTotals totals;
  EvalBatch first = batch(1, 0, 1), second = batch(1, 0, 9);
  first.moe_lb_loss = 0.2;
  second.moe_lb_loss = 0.4;
  first.mtp_acceptance_rate_percent = 50;
  second.mtp_acceptance_rate_percent = 70;
  totals.add(first);
  totals.add(second);
  const Record record = totals.record(0);
  EXPECT_NEAR(*record.get("eval/avg_moe_lb_loss"), 0.3, 1e-12);
  EXPECT_NEAR(*record.get("eval/moe_lb_loss"), 0.6, 1e-12);
  EXPECT_NEAR(*record.get("eval/avg_mtp_acceptance_rate_percent"), 60, 1e-12);
  EXPECT_EQ(record.get("eval/avg_mtp_loss"), 0.0);
  EXPECT_EQ(record.get("eval/avg_indexer_loss"), 0.0);
}

// Three of four pairs right, then one of two: 4/6, not (.75 + .5)/2.
TEST(EvalTotals, WeightsRewardAccuracyByPairs) {
  EvalTotals totals;
  EvalBatch first = batch(0, 0, 4), second = batch(0, 0, 2);
  first.dpo_reward_accuracy = 0.75;
  second.dpo_reward_accuracy = 0.5;
  totals.add(first);
  totals.add(second);
  EXPECT_NEAR(*totals.record(0).get("eval/avg_dpo_reward_accuracy"), 2.0 / 3, 1e-12);
}

TEST(EvalTotals, LeavesRewardAccuracyOutWithoutPairs) {
  EvalTotals totals;
  totals.add(batch(1, 0, 1));
  EXPECT_FALSE(totals.record(0).get("eval/avg_dpo_reward_accuracy").has_value());
}

TEST(EvalTotals, NamesASplitWithoutCountedTargets) {
  EvalTotals totals;
  totals.add(batch(0, 0, 0));
  EXPECT_EQ(totals.avg_loss(), 0);
  try {
    totals.check_not_empty("validation");
    FAIL() << "an empty split must not pass";
  } catch (const DataError& error) {
    EXPECT_EQ(std::string(error.what()).find("validation: "), 0u) << error.what();
    EXPECT_NE(std::string(error.what()).find("1 batch"), std::string::npos) << error.what();
  }
  totals.add(batch(1, 0, 1));
  EXPECT_NO_THROW(totals.check_not_empty("validation"));
}

}  // namespace
}  // namespace ballast
