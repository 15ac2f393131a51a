// SPDX-License-Identifier: Apache-2.0
// What the command line may say for keys of each kind, and the line it gets otherwise.
#include <gtest/gtest.h>

#include "config/resolve.h"
#include "files.h"

namespace ballast {
namespace {

std::string refusal(const std::string& pair) {
  return config_error([&] { config_from_pairs({pair}); });
}

TEST(KeyValues, ReachTheirFields) {
  const Config config = config_from_pairs({"steps=10_000", "learning_rate=1.e-3", "packing=False", "run_name=2026",
                                           "adamw_mask=['.*norm.*','bias']", "decoder_block=LLAMA2",
                                           "max_num_checkpoints_to_keep=None", "vocab_size=8.0"});
  EXPECT_EQ(config.steps, 10000);
  EXPECT_EQ(config.learning_rate, 1e-3);
  EXPECT_FALSE(config.packing);
  EXPECT_EQ(config.run_name, "2026");
  EXPECT_EQ(config.adamw_mask, (std::vector<std::string>{".*norm.*", "bias"}));
  EXPECT_EQ(config.decoder_block, "llama2");
  EXPECT_EQ(config.vocab_size, 8);
  EXPECT_EQ(config.origin("steps"), "command line");
}

TEST(KeyValues, LastOneWins) {
  EXPECT_EQ(config_from_pairs({"steps=3", "learning_rate=1", "steps=5"}).steps, 5);
  EXPECT_EQ(config_from_pairs({"dpo.dpo_beta=0.1", "dpo_beta=0.1"}).dpo_beta, 0.1);
}

TEST(KeyValues, MayContainEqualsSigns) {
  EXPECT_EQ(config_from_pairs({"run_name=a=b"}).run_name, "a=b");
}

TEST(KeyValues, KeepNoneWhereItIsAChoice) {
  EXPECT_EQ(config_from_pairs({"remat_policy=none"}).remat_policy, "none");
  EXPECT_EQ(config_from_pairs({"mu_dtype=None"}).mu_dtype, "");
  EXPECT_EQ(config_from_pairs({"rope_attention_factor=none"}).rope_attention_factor, std::nullopt);
  EXPECT_EQ(config_from_pairs({"rope_attention_factor=1.25"}).rope_attention_factor, 1.25);
}

TEST(KeyValues, OfTheWrongTypeAreRefused) {
  EXPECT_EQ(refusal("steps=8.5"), "config: command line steps: wrong type; got 8.5, need an integer of 64 bits");
  EXPECT_EQ(refusal("learning_rate=nan"),
            "config: command line learning_rate: wrong type; got nan, need a finite number");
  EXPECT_EQ(refusal("packing=maybe"), "config: command line packing: wrong type; got maybe, need true or false");
  EXPECT_EQ(refusal("steps=None"), "config: command line steps: needs a value; got None, need an integer of 64 bits");
  EXPECT_EQ(refusal("steps="), "config: command line steps: needs a value; got '', need an integer of 64 bits");
  EXPECT_EQ(refusal("train_data_columns=[a"),
            "config: command line train_data_columns: wrong type; got [a, need a list of words");
  EXPECT_EQ(refusal("vocab_size=99999999999999999999"),
            "config: command line vocab_size: wrong type; got 99999999999999999999, need an integer of 64 bits");
}

TEST(KeyValues, OutOfRangeAreRefused) {
  EXPECT_EQ(refusal("steps=0"), "config: command line steps: out of range; got 0, need at least 1 or -1");
  EXPECT_EQ(refusal("adam_b1=1"), "config: command line adam_b1: out of range; got 1, need at least 0 and less than 1");
  EXPECT_EQ(refusal("warmup_steps_fraction=1.1"),
            "config: command line warmup_steps_fraction: out of range; got 1.1, need at least 0 and at most 1");
  EXPECT_EQ(refusal("vocab_size=0"),
            "config: command line vocab_size: out of range; got 0, need at least 1 and at most 2147483647");
  EXPECT_EQ(refusal("per_device_batch_size=-1"),
            "config: command line per_device_batch_size: out of range; got -1, need more than 0 and at most 1e+06");
  EXPECT_EQ(refusal("learning_rate=-1e-3"),
            "config: command line learning_rate: out of range; got -1e-3, need at least 0");
}

TEST(KeyValues, OutsideAChoiceAreRefused) {
  EXPECT_EQ(refusal("dtype=int8"), "config: command line dtype: no such choice; got int8, need bfloat16 or float32");
  EXPECT_EQ(refusal("dataset_type=magic"),
            "config: command line dataset_type: no such choice; got magic, need synthetic, hf or recorded");
  EXPECT_EQ(refusal("dtype=float16"),
            "config: command line dtype: not supported: it would need loss scaling; use bfloat16; got float16, need "
            "bfloat16 or float32");
  EXPECT_EQ(refusal("dataset_type=c4_mlperf"),
            "config: command line dataset_type: not supported: TensorFlow data sets are not read; export them to "
            "Parquet or JSON lines and use dataset_type=hf; got c4_mlperf, need synthetic, hf or recorded");
}

TEST(KeyValues, OfLaterVersionsAreRefusedUnlessNeutral) {
  EXPECT_EQ(refusal("ici_expert_parallelism=8"),
            "config: command line ici_expert_parallelism: not built yet in this version; got 8, need 1 or -1");
  EXPECT_EQ(refusal("hardware=gpu"),
            "config: command line hardware: not built yet in this version; got gpu, need auto, cpu or tpu");
  for (const char* pair :
       {"use_dpo=true", "ici_tensor_parallelism=2", "grain_packing_type=best_fit", "dataset_type=grain",
        "decoder_block=deepseek4", "use_indexer=true", "cpu_devices=8", "gdn_chunk_size=32"}) {
    EXPECT_NE(refusal(pair).find("not built yet in this version"), std::string::npos) << pair;
  }
  ::testing::internal::CaptureStderr();
  config_from_pairs({"num_experts=0", "ici_fsdp_parallelism=1", "ici_expert_parallelism=-1", "use_dpo=false",
                     "compress_ratios=[]", "norm_topk_prob=false", "dcn_data_parallelism=1"});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(KeyValues, WithoutEffectDrawOneLine) {
  ::testing::internal::CaptureStderr();
  config_from_pairs({"scan_layers=True", "sa_block_q=512"});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ::testing::internal::CaptureStderr();
  config_from_pairs({"sa_block_q=1024"});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warning: config: command line sa_block_q=1024 is recognised but has no effect: a kernel of TPUs\n");
}

TEST(KeyValues, ThatWouldChangeResultsButAreNeverBuiltAreRefused) {
  EXPECT_EQ(refusal("quantization=int8"),
            "config: command line quantization: not supported: Ballast trains without quantization; got int8, need ''");
  EXPECT_EQ(refusal("lora.lora_rank=8"),
            "config: command line lora.lora_rank: not supported: adapters are not part of Ballast; got 8, need 0");
}

TEST(KeyValues, AreNotTakenForComputedKeys) {
  EXPECT_EQ(refusal("emb_dim=64"), "config: command line emb_dim: computed from other keys; got 64, need no value");
}

TEST(KeyValues, OfSecretsAreNeverPrinted) {
  ::testing::internal::CaptureStderr();
  const Config config = config_from_pairs({"hf_access_token=hf_abc"});
  EXPECT_EQ(::testing::internal::GetCapturedStderr().find("hf_abc"), std::string::npos);
  EXPECT_EQ(print_config(config).find("hf_abc"), std::string::npos);
}

TEST(Arguments, ThatAreNotPairsAreRefusedWithAdvice) {
  EXPECT_EQ(refusal("packing"), "config: command line packing: is not key=value; try packing=true");
  EXPECT_EQ(refusal("max_num_checkpoints_to_keep"),
            "config: command line max_num_checkpoints_to_keep: is not key=value; try max_num_checkpoints_to_keep=None");
  EXPECT_EQ(refusal("--steps=5"), "config: command line --steps=5: is not key=value; try steps=5");
  EXPECT_EQ(refusal("=5"), "config: command line =5: is not key=value; try =5");
  EXPECT_EQ(refusal("nonsense"), "config: command line nonsense: is not key=value");
  EXPECT_EQ(config_error([] { config_from_pairs({"steps=5", "base.yml"}); }),
            "config: command line base.yml: the configuration file must be the first argument");
}

TEST(KeyValues, OfRunNameMustNameAFolder) {
  EXPECT_EQ(refusal("run_name=.."),
            "config: run_name=.. (command line): cannot name a folder; try letters, digits, - and _");
  EXPECT_NE(refusal("run_name=a\nb").find("cannot name a folder"), std::string::npos);
}

TEST(UnknownKeys, MayBeGroups) {
  EXPECT_EQ(refusal("dpo=1"), "config: command line dpo: a group of keys, not a key");
}

TEST(UnknownKeys, AreAllNamedAtOnceWithTheirNeighbours) {
  EXPECT_EQ(refusal("learnin_rate=1"), "config: command line learnin_rate: unknown key; did you mean learning_rate?");
  EXPECT_EQ(config_error([] { config_from_pairs({"stepps=1", "frobnicate=2"}); }),
            "config: command line frobnicate: unknown key | command line stepps: unknown key; did you mean steps?");
}

}  // namespace
}  // namespace ballast
