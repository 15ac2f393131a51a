// SPDX-License-Identifier: Apache-2.0
// Dropout that is active in evaluation: karpathy/nanoGPT#240.
#include <set>

#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

TEST(NanoGpt240, EvaluationUsesNoDropout) {
  const Words keys = {"steps=3", "eval_interval=1", "eval_steps=1", "learning_rate=0"};
  const ProgramFolder with, without;
  const auto passes = records_of(with, tiny_run(joined(keys, {"dropout_rate=0.5"})), "eval");
  const auto expected = records_of(without, tiny_run(keys), "eval");
  ASSERT_EQ(passes.size(), 3U);
  ASSERT_EQ(expected.size(), 3U);
  for (const nlohmann::json& pass : passes) EXPECT_EQ(pass.at("eval/avg_loss"), expected[0].at("eval/avg_loss"));
  // In training it is active: one batch, fixed weights, and yet a loss of its own at every step.
  const auto steps = series(read_records(with.path() / "out/t/metrics.jsonl", "train"), "learning/loss");
  EXPECT_EQ(std::set<double>(steps.begin(), steps.end()).size(), 3U);
}

}  // namespace
}  // namespace ballast::testing
