// SPDX-License-Identifier: Apache-2.0
// What `ballast inspect`, `keys` and `eval` show.
#include <gtest/gtest.h>

#include "support/program.h"

namespace ballast::testing {
namespace {

const std::string kRoot = BALLAST_SOURCE_DIR;

TEST(Inspect, ListsTheTensorsOfAFolder) {
  const ProgramFolder folder;
  const ProgramResult result = folder.run({"inspect", kRoot + "/tests/golden/llama"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("model.layers.2.mlp.down_proj.weight"), std::string::npos);
  EXPECT_NE(result.out.find("F32  [32, 56]"), std::string::npos) << result.out;
}

TEST(Inspect, ShowsTheBatchThatTrainingWouldSee) {
  const ProgramFolder folder;
  const std::vector<std::string> data = {"dataset_type=hf", "hf_path=" + kRoot + "/examples/data/kjv",
                                         "tokenizer_path=" + kRoot + "/examples/data/kjv/tokenizer.json",
                                         "vocab_size=4096"};
  std::vector<std::string> words = tiny_run(data);
  words.erase(words.begin());
  words.insert(words.begin(), "inspect");
  words.insert(words.end(), {"--batch", "2"});
  const ProgramResult result = folder.run(words);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(result.out.starts_with("batch 2: 2 rows of 32 positions, ")) << result.out;
  const std::string tokens = result.out.substr(33, result.out.find(" loss tokens") - 33);
  ASSERT_EQ(folder.run(tiny_run(data)).exit_code, 0);
  const auto records = read_records(folder.path() / "out/t/metrics.jsonl", "train");
  EXPECT_EQ(records.at(2).at("learning/total_weights").get<double>(), std::stod(tokens));
}

TEST(Inspect, ListsACheckpointAndFindsItsFirstDamage) {
  const ProgramFolder folder;
  ASSERT_EQ(folder.run({"convert", kRoot + "/tests/golden/llama", "c"}).exit_code, 0);
  const ProgramResult result = folder.run({"inspect", "c", "--verify"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const std::string part : {"kind           weights\n", "step           0\n", "  config.yml ", "F32  [32, 56]",
                                 "ok: every checksum is right\n"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << result.out;
  }
  // Embedding and head 128 x 32; a layer: q, o 64 x 32, k, v 32 x 32, FFN 3 of 32 x 56, two norms; a norm.
  const int parameters = 2 * 4096 + 3 * (2 * 2048 + 2 * 1024 + 3 * 1792 + 64) + 32;
  EXPECT_NE(result.out.find("30 tensors, " + std::to_string(parameters) + " parameters, "), std::string::npos)
      << result.out;
  damage_file(folder.path() / "c/model-r00000.safetensors");
  EXPECT_EQ(folder.run({"inspect", "c"}).exit_code, 0) << "sizes and tables are right";
  const ProgramResult damaged = folder.run({"inspect", "c", "--verify"});
  EXPECT_EQ(damaged.exit_code, 4);
  EXPECT_EQ(damaged.out, "");
  EXPECT_NE(damaged.err.find("tensor 'lm_head.weight' has another checksum"), std::string::npos) << damaged.err;
}

TEST(Inspect, ShowsTheStateOfARunsCheckpoints) {
  const ProgramFolder folder;
  ASSERT_EQ(folder.run(tiny_run({"enable_checkpointing=true", "checkpoint_period=2"})).exit_code, 0);
  const std::filesystem::path checkpoints = folder.path() / "out/t/checkpoints";
  std::filesystem::remove(checkpoints / "0/COMPLETE");
  std::filesystem::resize_file(checkpoints / "2/optimizer-r00000.safetensors", 100);
  const ProgramResult result = folder.run({"inspect", "out/t"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const std::string state : {"not complete", "damaged: checkpoint: out/t/checkpoints/2/", "complete, training"}) {
    EXPECT_NE(result.out.find(state), std::string::npos) << state << result.out;
  }
  EXPECT_EQ(folder.run({"inspect", "out/t/checkpoints", "--verify"}).exit_code, 4);
  for (const char* step : {"0", "2"}) std::filesystem::remove_all(checkpoints / step);
  EXPECT_EQ(folder.run({"inspect", "out/t/checkpoints", "--verify"}).exit_code, 0);
  EXPECT_EQ(folder.run({"inspect", kRoot + "/tests/golden/llama", "--verify"}).exit_code, 2);
}

TEST(Keys, ExplainsAKey) {
  const ProgramFolder folder;
  const ProgramResult result = folder.run({"keys", "warmup_steps_fraction"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("warmup_steps_fraction"), std::string::npos);
  EXPECT_NE(result.out.find("0.1"), std::string::npos);
}

TEST(Eval, GivesTheLossOfAFoldersWeights) {
  const ProgramFolder folder;
  std::vector<std::string> words = {"eval",
                                    "configs/base.yml",
                                    "run_name=e",
                                    "base_output_directory=out",
                                    "hf_model_path=" + kRoot + "/tests/golden/llama",
                                    "dataset_type=synthetic",
                                    "eval_steps=2",
                                    "eval_interval=1",
                                    "max_target_length=16",
                                    "per_device_batch_size=2",
                                    "dtype=float32",
                                    "hardware=cpu"};
  const ProgramResult result = folder.run(words);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto records = read_records(folder.path() / "out/e/metrics.jsonl", "eval");
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].at("eval/total_weights"), 2 * 2 * 16);
  // Random ids under weights with logits of deviation 1.06: ln 128 + 1.06^2 / 2 = 5.41, here of 64 draws.
  EXPECT_NEAR(records[0].at("eval/avg_loss").get<double>(), 5.41, 0.4);
}

}  // namespace
}  // namespace ballast::testing
