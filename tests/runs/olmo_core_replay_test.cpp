// SPDX-License-Identifier: Apache-2.0
// Sixty steps of runs that OLMo-core trained, from its weights on its batches: tests/golden/runs/olmo_core_dense.
#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <sstream>

#include "support/program.h"

namespace ballast::testing {
namespace {

const std::string kGolden = std::string(BALLAST_SOURCE_DIR) + "/tests/golden/runs/olmo_core_dense";

struct RecordedRun {
  std::string metrics;            ///< file of the golden folder
  std::vector<std::string> keys;  ///< beside the recipe that both runs share
  double final_norm = 0;          ///< root of the summed squares of the final weights' recorded norms
};

std::vector<nlohmann::json> train(const ProgramFolder& folder, const std::vector<std::string>& keys) {
  const std::string words =
      "train configs/base.yml run_name=r base_output_directory=out hardware=cpu steps=60 max_target_length=128 "
      "per_device_batch_size=4 gradient_accumulation_steps=2 gradient_accumulation_split=contiguous "
      "lr_schedule_type=olmo_cosine learning_rate=2e-3 warmup_steps_fraction=0.16666666666666666 "
      "learning_rate_final_fraction=0.1 adam_b1=0.9 adam_b2=0.95 adam_eps=1e-8 adam_weight_decay=0.1 "
      "adamw_mask=embed_tokens gradient_clipping_threshold=1.0 z_loss_multiplier=1e-5 dtype=float32 "
      "weight_dtype=float32 enable_checkpointing=false dataset_type=recorded";
  std::istringstream stream(words);
  std::vector<std::string> arguments{std::istream_iterator<std::string>(stream), {}};
  arguments.push_back("hf_model_path=" + kGolden);
  arguments.push_back("recorded_batches_path=" + kGolden + "/batches.safetensors");
  arguments.insert(arguments.end(), keys.begin(), keys.end());
  const ProgramResult result = folder.run(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return read_records(folder.path() / "out/r/metrics.jsonl", "train");
}

void expect_same_run(const RecordedRun& recorded) {
  const ProgramFolder folder;
  const auto records = train(folder, recorded.keys);
  std::ifstream stream(kGolden + "/" + recorded.metrics);
  std::vector<nlohmann::json> expected;
  for (std::string line; std::getline(stream, line);) expected.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(records.size(), 60U);
  ASSERT_EQ(expected.size(), 60U);
  for (size_t step = 0; step < 60; ++step) {
    const auto relative = [&](const char* tag, const char* name) {
      return std::abs(records[step].at(tag).get<double>() / expected[step].at(name).get<double>() - 1);
    };
    EXPECT_LE(relative("learning/lm_loss", "ce_loss"), 5e-6) << "step " << step;
    EXPECT_LE(relative("learning/z_loss", "z_loss"), 5e-6) << "step " << step;
    EXPECT_LE(relative("learning/raw_grad_norm", "grad_norm_f64"), 5e-5) << "step " << step;
    EXPECT_LE(relative("learning/current_learning_rate", "lr"), 1e-8) << "step " << step;
    EXPECT_EQ(records[step].at("learning/total_weights"), 8 * 127);
    EXPECT_EQ(records[step].value("optim/step_skipped", 0.0), expected[step].value("step_skipped", 0.0));
  }
  EXPECT_NEAR(records[59].at("learning/param_norm").get<double>() / recorded.final_norm, 1.0, 1e-6);
}

TEST(Replay, FollowsARunOfOlmoCoreStepByStep) {
  expect_same_run({"metrics_adamw.jsonl", {}, 42.60053716503851});
}

// SkipStepAdamW with a window of 8 and one deviation: OLMo-core skipped steps 15, 49, 55 and 58 (counted from 1).
TEST(Replay, SkipsTheStepsThatOlmoCoreSkipped) {
  expect_same_run({"metrics_skip_step_adamw_skipping.jsonl",
                   {"skip_step_on_spikes=true", "skip_step_interval=8", "skip_step_scaling_factor=1"},
                   42.31079326572489});
}

}  // namespace
}  // namespace ballast::testing
