// SPDX-License-Identifier: Apache-2.0
// Sixty steps that transformers' Qwen3MoeForCausalLM was trained for, from its weights on its batches:
// tests/golden/runs/hf_qwen3_moe.
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

const std::string kRun = std::string(BALLAST_SOURCE_DIR) + "/tests/golden/runs/hf_qwen3_moe";

std::vector<json> read_json_lines(const fs::path& path) {
  std::ifstream stream(path);
  std::vector<json> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  return lines;
}

void train_recorded(const ProgramFolder& folder, const std::vector<std::string>& more) {
  const std::string words =
      "train configs/base.yml run_name=r base_output_directory=out hardware=cpu steps=60 max_target_length=128 "
      "per_device_batch_size=2 learning_rate=1e-3 warmup_steps_fraction=0.1 learning_rate_final_fraction=0.1 "
      "adam_b1=0.9 adam_b2=0.95 adam_eps=1e-8 adam_weight_decay=0.1 gradient_clipping_threshold=1.0 "
      "load_balance_loss_weight=0.01 dtype=float32 weight_dtype=float32 remat_policy=none expert_load_period=1 "
      "dataset_type=recorded";
  std::istringstream stream(words);
  std::vector<std::string> arguments{std::istream_iterator<std::string>(stream), {}};
  arguments.push_back("hf_model_path=" + kRun);
  arguments.push_back("recorded_batches_path=" + kRun + "/batches.safetensors");
  arguments.insert(arguments.end(), more.begin(), more.end());
  const ProgramResult result = folder.run(arguments);
  ASSERT_EQ(result.exit_code, 0) << result.err;
}

// The tolerances that the run's own measurements suggest.
void expect_same_metrics(const ProgramFolder& folder) {
  const std::vector<json> expected = read_json_lines(kRun + "/metrics.jsonl");
  const auto records = read_records(folder.path() / "out/r/metrics.jsonl", "train");
  ASSERT_EQ(records.size(), 60U);
  ASSERT_EQ(expected.size(), 60U);
  for (size_t step = 0; step < 60; ++step) {
    const auto relative = [&](const char* tag, const char* name, double factor = 1) {
      return std::abs(records[step].at(tag).get<double>() / (factor * expected[step].at(name).get<double>()) - 1);
    };
    EXPECT_LE(relative("learning/lm_loss", "ce"), 5e-6) << "step " << step;
    EXPECT_LE(relative("learning/loss", "total_loss"), 5e-6) << "step " << step;
    EXPECT_LE(relative("learning/moe_lb_loss", "lb_loss", 0.01), 2e-5) << "step " << step;
    EXPECT_LE(relative("learning/raw_grad_norm", "grad_norm_f64"), 5e-4) << "step " << step;
    EXPECT_NEAR(records[step].at("learning/current_learning_rate").get<double>(), expected[step].at("lr"), 1e-11);
  }
}

void expect_same_counts(const ProgramFolder& folder) {
  const SafetensorsFile routing(kRun + "/routing.safetensors");
  const auto shape = routing.at("expert_counts").shape;  // steps, layers, experts
  const auto* counts = reinterpret_cast<const int32_t*>(routing.bytes("expert_counts").data());
  const std::vector<json> loads = read_json_lines(folder.path() / "out/r/expert_load.jsonl");
  ASSERT_EQ(loads.size(), static_cast<size_t>(shape[0] * shape[1]));
  for (const json& load : loads) {
    const int64_t place = load.at("step").get<int64_t>() * shape[1] + load.at("layer").get<int64_t>();
    const std::vector<int32_t> expected(counts + place * shape[2], counts + (place + 1) * shape[2]);
    EXPECT_EQ(load.at("counts").get<std::vector<int32_t>>(), expected) << load.at("step") << " " << load.at("layer");
  }
}

void expect_same_weights(const fs::path& hf_folder) {
  std::ifstream stream(kRun + "/final_stats.json");
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

TEST(HfMoeReplay, FollowsARunOfTransformersStepByStep) {
  const ProgramFolder folder;
  train_recorded(folder, {"enable_checkpointing=true", "checkpoint_period=1000"});
  expect_same_metrics(folder);
  expect_same_counts(folder);
  const ProgramResult converted = folder.run({"convert", "out/r/checkpoints/59", "final"});
  ASSERT_EQ(converted.exit_code, 0) << converted.err;
  expect_same_weights(folder.path() / "final");
}

// The same run cut into two micro-batches and with blocks run again: every number stays.
TEST(HfMoeReplay, IsTheSameInTwoMicroBatchesWithRematerialization) {
  const ProgramFolder folder;
  train_recorded(folder, {"enable_checkpointing=false", "per_device_batch_size=1", "gradient_accumulation_steps=2",
                          "remat_policy=full"});
  expect_same_metrics(folder);
  expect_same_counts(folder);
}

}  // namespace
}  // namespace ballast::testing
