// SPDX-License-Identifier: Apache-2.0
// Steps that models of transformers 5.24 were trained for, from their weights on their batches: sixty of
// Qwen3MoeForCausalLM with a balance loss (tests/golden/runs/hf_qwen3_moe), forty of DeepseekV3ForCausalLM whose
// correction bias moves (hf_deepseek_v3_bias).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <sstream>

#include "files/safetensors.h"
#include "support/program.h"

namespace ballast::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct RecordedRun {
  std::string folder;
  int64_t steps = 0;
  int64_t first_moe_layer = 0;
  std::vector<std::string> recipe;
  double balance_weight = 0;

  std::string path(const std::string& file = "") const {
    return std::string(BALLAST_SOURCE_DIR) + "/tests/golden/runs/" + folder + file;
  }
};

const RecordedRun& qwen3_moe_run() {
  static const RecordedRun run = {
      .folder = "hf_qwen3_moe", .steps = 60, .recipe = {"load_balance_loss_weight=0.01"}, .balance_weight = 0.01};
  return run;
}

const RecordedRun& deepseek_v3_run() {
  static const RecordedRun run = {.folder = "hf_deepseek_v3_bias",
                                  .steps = 40,
                                  .first_moe_layer = 1,
                                  .recipe = {"routed_bias_update_rate=0.001", "gradient_accumulation_steps=2",
                                             "gradient_accumulation_split=contiguous"}};
  return run;
}

std::vector<json> read_json_lines(const fs::path& path) {
  std::ifstream stream(path);
  std::vector<json> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  return lines;
}

void train_recorded(const ProgramFolder& folder, const RecordedRun& run, const std::vector<std::string>& more) {
  const std::string words =
      "train configs/base.yml run_name=r base_output_directory=out hardware=cpu max_target_length=128 "
      "per_device_batch_size=2 learning_rate=1e-3 warmup_steps_fraction=0.1 learning_rate_final_fraction=0.1 "
      "adam_b1=0.9 adam_b2=0.95 adam_eps=1e-8 adam_weight_decay=0.1 gradient_clipping_threshold=1.0 "
      "dtype=float32 weight_dtype=float32 remat_policy=none expert_load_period=1 "
      "dataset_type=recorded";
  std::istringstream stream(words);
  std::vector<std::string> arguments{std::istream_iterator<std::string>(stream), {}};
  arguments.push_back("steps=" + std::to_string(run.steps));
  arguments.push_back("hf_model_path=" + run.path());
  arguments.push_back("recorded_batches_path=" + run.path("/batches.safetensors"));
  arguments.insert(arguments.end(), run.recipe.begin(), run.recipe.end());
  arguments.insert(arguments.end(), more.begin(), more.end());
  const ProgramResult result = folder.run(arguments);
  ASSERT_EQ(result.exit_code, 0) << result.err;
}

// The tolerances that the run's own measurements suggest.
void expect_same_metrics(const ProgramFolder& folder, const RecordedRun& run) {
  const std::vector<json> expected = read_json_lines(run.path("/metrics.jsonl"));
  const auto records = read_records(folder.path() / "out/r/metrics.jsonl", "train");
  const auto steps = static_cast<size_t>(run.steps);
  ASSERT_EQ(records.size(), steps);
  ASSERT_EQ(expected.size(), steps);
  for (size_t step = 0; step < steps; ++step) {
    const auto relative = [&](const char* tag, const char* name, double factor = 1) {
      return std::abs(records[step].at(tag).get<double>() / (factor * expected[step].at(name).get<double>()) - 1);
    };
    EXPECT_LE(relative("learning/lm_loss", "ce"), 5e-6) << "step " << step;
    if (run.balance_weight > 0) {
      EXPECT_LE(relative("learning/loss", "total_loss"), 5e-6) << "step " << step;
      EXPECT_LE(relative("learning/moe_lb_loss", "lb_loss", run.balance_weight), 2e-5) << "step " << step;
    }
    EXPECT_LE(relative("learning/raw_grad_norm", "grad_norm_f64"), 5e-4) << "step " << step;
    EXPECT_NEAR(records[step].at("learning/current_learning_rate").get<double>(), expected[step].at("lr"), 1e-11);
  }
}

// Assignments of every step, and the bias behind each update, where there is one, to the last bit.
void expect_same_counts(const ProgramFolder& folder, const RecordedRun& run) {
  const SafetensorsFile routing(run.path("/routing.safetensors"));
  const auto shape = routing.at("expert_counts").shape;  // steps, layers, experts
  const auto* counts = reinterpret_cast<const int32_t*>(routing.bytes("expert_counts").data());
  const std::vector<json> loads = read_json_lines(folder.path() / "out/r/expert_load.jsonl");
  ASSERT_EQ(loads.size(), static_cast<size_t>(shape[0] * shape[1]));
  for (const json& load : loads) {
    const int64_t layer = load.at("layer").get<int64_t>() - run.first_moe_layer;
    const int64_t place = load.at("step").get<int64_t>() * shape[1] + layer;
    const std::vector<int32_t> expected(counts + place * shape[2], counts + (place + 1) * shape[2]);
    EXPECT_EQ(load.at("counts").get<std::vector<int32_t>>(), expected) << load.at("step") << " " << load.at("layer");
    if (routing.find("bias_after_step") == nullptr) continue;
    const auto* biases = reinterpret_cast<const float*>(routing.bytes("bias_after_step").data());
    const std::vector<float> expected_bias(biases + place * shape[2], biases + (place + 1) * shape[2]);
    EXPECT_EQ(load.at("bias").get<std::vector<float>>(), expected_bias) << load.at("step") << " " << load.at("layer");
  }
}

void expect_same_weights(const fs::path& hf_folder, const RecordedRun& run) {
  std::ifstream stream(run.path("/final_stats.json"));
  const json stats = json::parse(stream);
  const SafetensorsFolder weights = open_hf_weights(hf_folder);
  EXPECT_EQ(weights.names().size(), stats.size());
  for (const auto& [name, expected] : stats.items()) {
    const auto bytes = weights.bytes(name);
    const auto* values = reinterpret_cast<const float*>(bytes.data());
    double squares = 0;
    for (size_t i = 0; i < bytes.size() / sizeof(float); ++i) squares += static_cast<double>(values[i]) * values[i];
    EXPECT_NEAR(std::sqrt(squares) / expected.at("l2").get<double>(), 1.0, 1e-5) << name;
    for (size_t i = 0; i < 4; ++i) {
      const double value = values[expected.at("index")[i].get<size_t>()];
      EXPECT_NEAR(value, expected.at("value")[i].get<double>(), 2e-5 * expected.at("max_abs").get<double>()) << name;
    }
  }
}

void expect_the_recorded_run(const RecordedRun& run) {
  const ProgramFolder folder;
  train_recorded(folder, run, {"enable_checkpointing=true", "checkpoint_period=1000"});
  expect_same_metrics(folder, run);
  expect_same_counts(folder, run);
  const std::string checkpoint = "out/r/checkpoints/" + std::to_string(run.steps - 1);
  const ProgramResult converted = folder.run({"convert", checkpoint, "final"});
  ASSERT_EQ(converted.exit_code, 0) << converted.err;
  expect_same_weights(folder.path() / "final", run);
}

TEST(HfMoeReplay, FollowsARunOfTransformersStepByStep) {
  expect_the_recorded_run(qwen3_moe_run());
}

TEST(HfMoeReplay, FollowsARunOfDeepseekV3WithItsBiases) {
  expect_the_recorded_run(deepseek_v3_run());
}

// The same run cut into two micro-batches and with blocks run again: every number stays.
TEST(HfMoeReplay, IsTheSameInTwoMicroBatchesWithRematerialization) {
  const ProgramFolder folder;
  train_recorded(
      folder, qwen3_moe_run(),
      {"enable_checkpointing=false", "per_device_batch_size=1", "gradient_accumulation_steps=2", "remat_policy=full"});
  expect_same_metrics(folder, qwen3_moe_run());
  expect_same_counts(folder, qwen3_moe_run());
}

// All four rows at once, blocks run again.
TEST(HfMoeReplay, DeepseekV3IsTheSameInOneMicroBatchWithRematerialization) {
  const ProgramFolder folder;
  train_recorded(
      folder, deepseek_v3_run(),
      {"enable_checkpointing=false", "per_device_batch_size=4", "gradient_accumulation_steps=1", "remat_policy=full"});
  expect_same_metrics(folder, deepseek_v3_run());
  expect_same_counts(folder, deepseek_v3_run());
}

}  // namespace
}  // namespace ballast::testing
