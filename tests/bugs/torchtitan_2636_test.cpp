// SPDX-License-Identifier: Apache-2.0
// One batch lost at each evaluation: pytorch/torchtitan#2636.
#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

// Three batches of different size, two of them evaluated: each pass starts with the first one again.
TEST(TorchTitan2636, EveryPassReadsTheSameBatches) {
  const ProgramFolder folder;
  write_documents(folder, "data/validation.jsonl", {some_ids(20), some_ids(10, 1), some_ids(5, 2)});
  write_documents(folder, "data/train.jsonl", {some_ids(20), some_ids(10, 1), some_ids(5, 2)});
  const Words keys = {"packing=false", "per_device_batch_size=1",  "steps=3",        "eval_interval=1",
                      "eval_steps=2",  "hf_eval_split=validation", "learning_rate=0"};
  const auto passes = records_of(folder, tiny_run(document_keys(keys)), "eval");
  ASSERT_EQ(passes.size(), 3U);
  for (const nlohmann::json& pass : passes) {
    EXPECT_EQ(pass.at("eval/total_weights"), 19 + 9);
    EXPECT_EQ(pass.at("eval/avg_loss"), passes[0].at("eval/avg_loss"));
  }
  // The training batches are the same rows and the weights never move.
  const auto steps = read_records(folder.path() / "out/t/metrics.jsonl", "train");
  const double expected =
      (19 * steps.at(0).at("learning/lm_loss").get<double>() + 9 * steps.at(1).at("learning/lm_loss").get<double>()) /
      28;
  EXPECT_NEAR(passes[0].at("eval/avg_loss").get<double>() / expected, 1.0, 1e-6);
}

}  // namespace
}  // namespace ballast::testing
