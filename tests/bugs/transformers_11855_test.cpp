// SPDX-License-Identifier: Apache-2.0
// Perplexity beyond the range of a double: huggingface/transformers#11855, facebookresearch/fairseq#1833,
// UKGovernmentBEIS/inspect_ai#5028.
#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

// The head times 1e4 makes differences of logits of that size; exp() of a double ends at 709.78.
TEST(Transformers11855, IsPrintedAsInfinityAndTheRunGoesOn) {
  const ProgramFolder folder;
  const std::string model =
      changed_golden(folder, kGoldenLlama, [](const std::string& name, std::vector<float>& values) {
        if (name != "lm_head.weight") return;
        for (float& value : values) value *= 1e4F;
      });
  const Words keys = {"dataset_type=synthetic", "max_target_length=16", "per_device_batch_size=2", "steps=2",
                      "eval_interval=1",        "eval_steps=1"};
  const ProgramResult result = folder.run(golden_llama_run("train", keys, model));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("perplexity: inf"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("perplexity=inf"), std::string::npos) << result.out;
  const auto steps = read_records(folder.path() / "out/t/metrics.jsonl", "train");  // every line is JSON
  const auto passes = read_records(folder.path() / "out/t/metrics.jsonl", "eval");
  ASSERT_EQ(steps.size(), 2U);
  ASSERT_EQ(passes.size(), 2U);
  for (const nlohmann::json& step : steps) {
    EXPECT_GT(step.at("learning/lm_loss").get<double>(), 710);
    EXPECT_TRUE(step.at("learning/perplexity").is_null());
    EXPECT_EQ(step.at("non_finite").at("learning/perplexity"), "inf");
  }
  EXPECT_EQ(passes[1].at("non_finite").at("eval/avg_perplexity"), "inf");
  EXPECT_EQ(folder.run({"report", "out/t"}).exit_code, 0);
}

}  // namespace
}  // namespace ballast::testing
