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

TEST(Optimizers, AdamPaxTakesTheStepsOfAdamW) {
  const std::vector<double> pax = losses_with({"opt_type=adam_pax"}), adamw = losses_with({});
  for (size_t i = 0; i < adamw.size(); ++i) EXPECT_NEAR(pax[i] / adamw[i], 1.0, 1e-5) << "step " << i;
}

}  // namespace
}  // namespace ballast::testing
