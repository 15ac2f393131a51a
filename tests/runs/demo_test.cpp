// SPDX-License-Identifier: Apache-2.0
// The demo's model and data, for a shorter time.
#include <gtest/gtest.h>

#include "support/program.h"

namespace ballast::testing {
namespace {

TEST(Demo, ValidationPerplexityFallsAtEveryEvaluation) {
  const ProgramFolder folder;
  const std::string root = BALLAST_SOURCE_DIR;
  const ProgramResult result = folder.run(
      {"train", root + "/configs/demo.yml", "base_output_directory=out", "hf_path=" + root + "/examples/data/kjv",
       "tokenizer_path=" + root + "/examples/data/kjv/tokenizer.json", "steps=31", "eval_interval=10", "eval_steps=2",
       "per_device_batch_size=4", "base_num_decoder_layers=2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto evaluations = read_records(folder.path() / "out/demo/metrics.jsonl", "eval");
  const std::vector<double> perplexities = series(evaluations, "eval/avg_perplexity");
  ASSERT_EQ(perplexities.size(), 4U);  // after steps 0, 10, 20 and 30
  // Logits of initial weights have variance 1, so the loss is near ln 4096 + 1/2: perplexity 6750.
  EXPECT_NEAR(perplexities[0], 6750, 1500);
  for (size_t i = 1; i < perplexities.size(); ++i) EXPECT_LT(perplexities[i], perplexities[i - 1]);
  EXPECT_LT(perplexities.back(), 700);
  EXPECT_FALSE(std::filesystem::is_empty(folder.path() / "out/demo/tensorboard/demo"));
}

}  // namespace
}  // namespace ballast::testing
