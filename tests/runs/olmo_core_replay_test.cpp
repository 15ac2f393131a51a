// SPDX-License-Identifier: Apache-2.0
// Sixty steps of a run that OLMo-core trained, from its weights on its batches: tests/golden/runs/olmo_core_dense.
#include <gtest/gtest.h>

#include <cmath>

#include "support/program.h"

namespace ballast::testing {
namespace {

TEST(Replay, FollowsARunOfOlmoCoreStepByStep) {
  const std::string golden = std::string(BALLAST_SOURCE_DIR) + "/tests/golden/runs/olmo_core_dense";
  const ProgramFolder folder;
  const ProgramResult result = folder.run({"train",
                                           "configs/base.yml",
                                           "run_name=r",
                                           "base_output_directory=out",
                                           "hardware=cpu",
                                           "hf_model_path=" + golden,
                                           "dataset_type=recorded",
                                           "recorded_batches_path=" + golden + "/batches.safetensors",
                                           "steps=60",
                                           "max_target_length=128",
                                           "per_device_batch_size=4",
                                           "gradient_accumulation_steps=2",
                                           "gradient_accumulation_split=contiguous",
                                           "lr_schedule_type=olmo_cosine",
                                           "learning_rate=2e-3",
                                           "warmup_steps_fraction=0.16666666666666666",
                                           "learning_rate_final_fraction=0.1",
                                           "adam_b1=0.9",
                                           "adam_b2=0.95",
                                           "adam_eps=1e-8",
                                           "adam_weight_decay=0.1",
                                           "adamw_mask=embed_tokens",
                                           "gradient_clipping_threshold=1.0",
                                           "z_loss_multiplier=1e-5",
                                           "dtype=float32",
                                           "weight_dtype=float32",
                                           "enable_checkpointing=false"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto records = read_records(folder.path() / "out/r/metrics.jsonl", "train");
  std::ifstream stream(golden + "/metrics_adamw.jsonl");
  std::vector<nlohmann::json> expected;
  for (std::string line; std::getline(stream, line);) expected.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(records.size(), 60U);
  ASSERT_EQ(expected.size(), 60U);
  const auto relative = [&](size_t step, const char* tag, const char* name) {
    return std::abs(records[step].at(tag).get<double>() / expected[step].at(name).get<double>() - 1);
  };
  for (size_t step = 0; step < 60; ++step) {
    EXPECT_LE(relative(step, "learning/lm_loss", "ce_loss"), 5e-6) << "step " << step;
    EXPECT_LE(relative(step, "learning/z_loss", "z_loss"), 5e-6) << "step " << step;
    EXPECT_LE(relative(step, "learning/raw_grad_norm", "grad_norm_f64"), 5e-5) << "step " << step;
    EXPECT_LE(relative(step, "learning/current_learning_rate", "lr"), 1e-8) << "step " << step;
    EXPECT_EQ(records[step].at("learning/total_weights"), 8 * 127);
  }
  // Root of the summed squares of the final weights' norms as recorded.
  EXPECT_NEAR(records[59].at("learning/param_norm").get<double>() / 42.60053716503851, 1.0, 1e-6);
}

}  // namespace
}  // namespace ballast::testing
