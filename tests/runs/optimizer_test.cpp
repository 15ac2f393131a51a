// SPDX-License-Identifier: Apache-2.0
// Whole runs with other optimizers.
#include <gtest/gtest.h>

#include "support/program.h"

namespace ballast::testing {
namespace {

std::vector<double> losses_with(const std::vector<std::string>& more) {
  const ProgramFolder folder;
  std::vector<std::string> words = {"steps=12", "warmup_steps_fraction=0", "reuse_example_batch=1"};
  words.insert(words.end(), more.begin(), more.end());
  const ProgramResult result = folder.run(tiny_run(words));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return series(read_records(folder.path() / "out/t/metrics.jsonl", "train"), "learning/loss");
}

TEST(Optimizers, EveryTypeTrains) {
  for (const std::vector<std::string>& keys : {std::vector<std::string>{"opt_type=sgd", "learning_rate=0.5"},
                                               {"opt_type=muon", "learning_rate=0.02"},
                                               {"opt_type=muon", "muon_consistent_rms=0.2", "muon_weight_decay=0.1"},
                                               {"opt_type=adam_pax"}}) {
    const std::vector<double> losses = losses_with(keys);
    ASSERT_EQ(losses.size(), 12U);
    for (size_t i = 1; i < losses.size(); ++i) EXPECT_LT(losses[i], losses[i - 1]) << keys[0] << " step " << i;
  }
}

TEST(Optimizers, BFloat16MomentsAndGradientsStayNearFloat32) {
  const std::vector<double> exact = losses_with({});
  const std::vector<double> rounded = losses_with({"mu_dtype=bfloat16", "grad_dtype=bfloat16"});
  EXPECT_NE(rounded, exact);
  // Both round relative to 2^-9, and a step moves along a ratio of the two.
  for (size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(rounded[i] / exact[i], 1.0, 5e-3) << "step " << i;
}

TEST(Optimizers, SpikesAreSkippedAndTheRunGoesOn) {
  const ProgramFolder folder;
  // Factor 0 and a window of two: every step whose loss or norm lies above the mean of the two before is skipped.
  const ProgramResult result =
      folder.run(tiny_run({"skip_step_on_spikes=true", "skip_step_interval=2", "steps=12", "skip_step_scaling_factor=0",
                           "warmup_steps_fraction=0", "learning_rate=0.1"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto records = read_records(folder.path() / "out/t/metrics.jsonl", "train");
  ASSERT_EQ(records.size(), 12U);
  const std::vector<double> losses = series(records, "learning/lm_loss"),
                            norms = series(records, "learning/raw_grad_norm");
  const std::vector<double> skipped = series(records, "optim/step_skipped");
  const std::vector<double> weights = series(records, "learning/param_norm");
  EXPECT_EQ(skipped[0], 0);
  int num_skipped = 0;
  for (size_t i = 1; i < records.size(); ++i) {
    const size_t first = i < 2 ? 0 : i - 2;
    const auto is_above = [&](const std::vector<double>& values) {
      double mean = 0;
      for (size_t j = first; j < i; ++j) mean += values[j] / static_cast<double>(i - first);
      return values[i] > mean;
    };
    EXPECT_EQ(skipped[i] == 1, is_above(losses) || is_above(norms)) << "step " << i;
    EXPECT_EQ(weights[i] == weights[i - 1], skipped[i] == 1) << "step " << i;
    num_skipped += skipped[i] == 1 ? 1 : 0;
  }
  EXPECT_GT(num_skipped, 0);
  EXPECT_LT(num_skipped, 12);
}

TEST(Optimizers, AdamPaxTakesTheStepsOfAdamW) {
  const std::vector<double> pax = losses_with({"opt_type=adam_pax"}), adamw = losses_with({});
  for (size_t i = 0; i < adamw.size(); ++i) EXPECT_NEAR(pax[i] / adamw[i], 1.0, 1e-5) << "step " << i;
}

}  // namespace
}  // namespace ballast::testing
