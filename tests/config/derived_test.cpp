// SPDX-License-Identifier: Apache-2.0
#include "config/derived.h"

#include <gtest/gtest.h>

#include <regex>

#include "config/resolve.h"
#include "files.h"

namespace ballast {
namespace {

Config on_devices(int64_t num_devices, const std::vector<std::string>& pairs) {
  ConfigOptions options;
  options.needs_data = false;
  options.num_devices = num_devices;
  return config_from_pairs(pairs, options);
}

TEST(DerivedSizes, GrowWithTheScale) {
  // log2(scale) = 3q + r: layers 2^q, heads and mlp 2^(q + (r>0)), emb 2^(q + (r>1)).
  struct Row {
    const char* scale;
    int64_t layers, heads, emb;
  };
  for (const Row& row : {Row{"1", 1, 1, 1}, Row{"2", 1, 2, 1}, Row{"4", 1, 2, 2}, Row{"8", 2, 2, 2}, Row{"16", 2, 4, 2},
                         Row{"32", 2, 4, 4}, Row{"64", 4, 4, 4}}) {
    const Config config = config_from_pairs({std::string("global_parameter_scale=") + row.scale});
    EXPECT_EQ(config.num_decoder_layers, 16 * row.layers) << row.scale;
    EXPECT_EQ(config.num_query_heads, 16 * row.heads) << row.scale;
    EXPECT_EQ(config.num_kv_heads, 16 * row.heads) << row.scale;
    EXPECT_EQ(config.mlp_dim, 7168 * row.heads) << row.scale;
    EXPECT_EQ(config.moe_mlp_dim, 7168 * row.heads) << row.scale;
    EXPECT_EQ(config.emb_dim, 2048 * row.emb) << row.scale;
  }
  EXPECT_EQ(config_error([] { config_from_pairs({"global_parameter_scale=3"}); }),
            "config: global_parameter_scale=3 (command line): is no power of two; try 1, 2, 4 ...");
  // 2^62: q = 20, r = 2.
  const Config huge = config_from_pairs({"global_parameter_scale=4611686018427387904", "base_mlp_dim=1e9"});
  EXPECT_EQ(huge.mlp_dim, 1000000000LL << 21);
}

TEST(DerivedBatch, CountsRows) {
  const Config config = on_devices(4, {"per_device_batch_size=3", "gradient_accumulation_steps=2"});
  EXPECT_EQ(config.micro_batch_size_to_train_on, 12);
  EXPECT_EQ(config.global_batch_size_to_train_on, 24);
  EXPECT_EQ(config.global_batch_size_to_load, 24);
  EXPECT_EQ(config.eval_per_device_batch_size, 3);
  EXPECT_EQ(config.micro_batch_size_to_eval_on, 12);
  EXPECT_EQ(config.global_batch_size_to_load_eval, 12);
  EXPECT_EQ(config.num_target_devices, 4);
  EXPECT_EQ(config.origin("global_batch_size_to_load"), "derived");
}

TEST(DerivedBatch, LoadsARowADeviceBelowOne) {
  const Config config =
      on_devices(8, {"per_device_batch_size=0.25", "gradient_accumulation_steps=3", "eval_per_device_batch_size=0.5"});
  EXPECT_EQ(config.micro_batch_size_to_train_on, 2);
  EXPECT_EQ(config.global_batch_size_to_train_on, 6);
  EXPECT_EQ(config.global_batch_size_to_load, 24);
  EXPECT_EQ(config.micro_batch_size_to_eval_on, 4);
  EXPECT_EQ(config.global_batch_size_to_load_eval, 8);
}

// MaxText: int(devices * rows * expansion) * N, and devices * expansion * N for less than a row a device.
TEST(DerivedBatch, LoadsMoreRowsByTheExpansionFactor) {
  const Config config = on_devices(4, {"per_device_batch_size=3", "gradient_accumulation_steps=2",
                                       "expansion_factor_real_data=2.5", "eval_per_device_batch_size=1"});
  EXPECT_EQ(config.micro_batch_size_to_train_on, 12);
  EXPECT_EQ(config.global_batch_size_to_train_on, 24);
  EXPECT_EQ(config.global_batch_size_to_load, 60);
  EXPECT_EQ(config.global_batch_size_to_load_eval, 10);
  EXPECT_EQ(on_devices(8, {"per_device_batch_size=0.25", "expansion_factor_real_data=2"}).global_batch_size_to_load,
            16);
}

TEST(DerivedBatch, RefusesAMicroBatchWithoutRows) {
  EXPECT_EQ(config_error([] { config_from_pairs({"per_device_batch_size=0.5"}); }),
            "config: command line per_device_batch_size: a micro-batch has no row on 1 device(s); need devices times "
            "it at least 1");
}

TEST(DerivedBatch, RoundsDownWithAWarning) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(config_from_pairs({"per_device_batch_size=2.5"}).micro_batch_size_to_train_on, 2);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("rounded down"), std::string::npos);
}

TEST(DerivedSteps, MinusOneCopiesTheOther) {
  EXPECT_EQ(config_from_pairs({"steps=20"}).learning_rate_schedule_steps, 20);
  const Config config = config_from_pairs({"steps=-1", "learning_rate_schedule_steps=30"});
  EXPECT_EQ(config.steps, 30);
  EXPECT_EQ(config.origin("steps"), "derived");
  EXPECT_EQ(config_from_pairs({"steps=24", "learning_rate_schedule_steps=20"}).learning_rate_schedule_steps, 20);
  EXPECT_EQ(config_error([] { config_from_pairs({"steps=-1"}); }),
            "config: command line steps: steps and learning_rate_schedule_steps both ask for the other one; need a "
            "number in one of them");
}

TEST(DerivedFolders, HangOnTheRun) {
  const Config config = config_from_pairs({"base_output_directory=/out", "run_name=a"});
  EXPECT_EQ(config.checkpoint_dir, "/out/a/checkpoints/");
  EXPECT_EQ(config.metrics_dir, "/out/a/metrics/");
  EXPECT_EQ(config.tensorboard_dir, "/out/a/tensorboard/");
}

TEST(DerivedFolders, HaveDefaults) {
  const Config config = config_from_pairs({});
  EXPECT_EQ(config.base_output_directory, std::filesystem::current_path().string() + "/ballast_output");
  EXPECT_TRUE(std::regex_match(config.run_name, std::regex("default_\\d{4}(-\\d\\d){4}"))) << config.run_name;
  ConfigOptions options;
  options.needs_data = false;
  options.environment = std::map<std::string, std::string>{{"JOBSET_NAME", "job7"}};
  EXPECT_EQ(config_from_pairs({}, options).run_name, "job7");
}

TEST(DerivedTokenizer, IsTheModelFoldersOwn) {
  const std::string folder = std::string(BALLAST_SOURCE_DIR) + "/tests/golden/llama";
  EXPECT_EQ(config_from_pairs({"hf_model_path=" + folder}).tokenizer_path, folder);
  EXPECT_EQ(config_from_pairs({"hf_model_path=" + folder, "tokenizer_path=t"}).tokenizer_path, "t");
  EXPECT_EQ(config_from_pairs({}).tokenizer_path, "");
}

TEST(DerivedHardware, TakesTpuAsAuto) {
  EXPECT_EQ(config_from_pairs({"hardware=tpu"}).hardware, "auto");
}

}  // namespace
}  // namespace ballast
