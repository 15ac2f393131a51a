// SPDX-License-Identifier: Apache-2.0
// Values that contradict one another.
#include "config/checks.h"

#include <gtest/gtest.h>

#include "config/resolve.h"
#include "files.h"

namespace ballast {
namespace {

Config for_a_run(const std::vector<std::string>& pairs) {
  return config_from_pairs(pairs, ConfigOptions());
}

std::string refusal(const std::vector<std::string>& pairs) {
  return config_error([&] { for_a_run(pairs); });
}

TEST(CheckTogether, WarmupAndDecayFitInTheSchedule) {
  EXPECT_EQ(refusal({"dataset_type=synthetic", "lr_schedule_type=wsd", "warmup_steps_fraction=0.6",
                     "wsd_decay_steps_fraction=0.5"}),
            "config: warmup_steps_fraction=0.6 (command line), wsd_decay_steps_fraction=0.5 (command line): their sum "
            "is more than 1; try smaller fractions");
  EXPECT_EQ(for_a_run({"dataset_type=synthetic", "lr_schedule_type=cosine", "warmup_steps_fraction=1",
                       "wsd_decay_steps_fraction=0.5"})
                .warmup_steps_fraction,
            1.0);
}

TEST(CheckTogether, TensorsNamedForAnotherRematPolicyAreNamed) {
  const auto log_of = [](std::vector<std::string> pairs) {
    pairs.insert(pairs.end(), {"dataset_type=synthetic", "enable_checkpointing=false", "base_output_directory=x"});
    testing::internal::CaptureStderr();
    for_a_run(pairs);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(log_of({"remat_policy=minimal", "out_proj=device"}),
            "warning: config: command line out_proj has no effect with remat_policy=minimal\n");
  EXPECT_EQ(log_of({"remat_policy=custom", "out_proj=device"}), "");
  EXPECT_EQ(log_of({"remat_policy=custom", "out_proj=offload"}),
            "config: out_proj=offload: kept in place: a CPU has no other memory to move to\n");
  EXPECT_EQ(log_of({"remat_policy=minimal_offloaded"}),
            "config: remat_policy=minimal_offloaded: kept in place: a CPU has no other memory to move to\n");
  EXPECT_EQ(log_of({"remat_policy=custom", "mla_q=device"}),
            "warning: config: command line mla_q has no effect with attention_type=global\n");
  EXPECT_EQ(log_of({"remat_policy=custom", "mla_q=device", "attention_type=mla", "decoder_block=deepseek"}), "");
  EXPECT_EQ(
      log_of({"remat_policy=custom", "engram=device"}),
      "warning: config: command line engram=device is recognised but has no effect: no layer of this version makes "
      "this tensor\n");
}

TEST(ChangedValues, AreOneLineASourceWithoutSecrets) {
  testing::internal::CaptureStderr();
  const std::vector<std::string> lines =
      changed_values(config_from_pairs({"steps=7", "hf_access_token=hf_abc", "train_split=a\nb", "log_period=100"}));
  testing::internal::GetCapturedStderr();
  ASSERT_EQ(lines.size(), 2);
  EXPECT_EQ(lines[0], "command line: steps=7 train_split=a\\nb hf_access_token=(set)");
  EXPECT_EQ(lines[1].find("computed: "), 0) << lines[1];
  EXPECT_NE(lines[1].find(" learning_rate_schedule_steps=7 "), std::string::npos) << lines[1];
}

TEST(CheckTogether, OneSourceOfWeights) {
  EXPECT_EQ(refusal({"dataset_type=synthetic", "load_parameters_path=a", "load_full_state_path=b"}),
            "config: load_parameters_path=a (command line), load_full_state_path=b (command line): both name the "
            "weights of a new run; try one of them");
}

TEST(CheckTogether, KeysThatAnotherKeySwitchesOffDrawALine) {
  struct Row {
    std::string pair;    // idle ...
    const char* reason;  // ... because of this
    std::vector<std::string> cure;
  };
  const Row rows[] = {
      {"skip_step_interval=3", "skip_step_on_spikes=false", {"skip_step_on_spikes=true"}},
      {"wsd_decay_style=cosine", "lr_schedule_type=cosine", {"lr_schedule_type=wsd"}},
      {"global_rampup_samples=8", "enable_rampup_batch_size=false", {"enable_rampup_batch_size=true"}},
      {"qk_norm_with_scale=false", "use_qk_norm=false", {"use_qk_norm=true"}},
      {"normalize_embedding_logits=false", "logits_via_embedding=false", {"logits_via_embedding=true"}},
      {"rope_linear_scaling_factor=2", "rope_type=default", {"rope_type=linear"}},
      {"rope_factor=8", "rope_type=default", {"rope_type=yarn"}},
      {"beta_fast=8", "rope_type=default", {"local_rope_type=yarn"}},
      {"eval_start_step=3", "eval_interval=-1", {"eval_interval=2", "eval_steps=1"}},
      {"hf_name=x", "dataset_type=synthetic", {"dataset_type=hf", "hf_path=x", "tokenizer_path=t"}},
      {"profiler_steps=2", "profiler=''", {"profiler=xplane"}},
      {"checkpoint_period=7", "enable_checkpointing=false", {"enable_checkpointing=true"}},
      {"num_experts_per_tok=2", "num_experts=1", {"num_experts=4", "base_moe_mlp_dim=8"}},
      {"routed_score_func=softmax", "num_experts=1", {"num_experts=4", "base_moe_mlp_dim=8"}},
      {"router_z_loss_weight=1", "num_experts=1", {"num_experts=4", "base_moe_mlp_dim=8"}},
      {"load_balance_loss_weight=1", "num_experts=1", {"num_experts=4", "base_moe_mlp_dim=8"}},
      {"load_balance_scope=batch",
       "num_experts=1",
       {"num_experts=4", "base_moe_mlp_dim=8", "load_balance_loss_weight=1"}},
      {"moe_mlpwo=device", "num_experts=1", {"num_experts=4", "base_moe_mlp_dim=8", "remat_policy=custom"}},
      {"log_moe_bias_norms=true", "num_experts=1", {"num_experts=4", "base_moe_mlp_dim=8", "routed_bias=true"}},
  };
  const auto log_of = [](const std::string& pair, const std::vector<std::string>& more) {
    std::vector<std::string> all = {"enable_checkpointing=false", "base_output_directory=x", pair};
    const bool has_data = !more.empty() && more[0].starts_with("dataset_type");
    if (!has_data) all.push_back("dataset_type=synthetic");
    all.insert(all.end(), more.begin(), more.end());
    testing::internal::CaptureStderr();
    for_a_run(all);
    return testing::internal::GetCapturedStderr();
  };
  for (const Row& row : rows) {
    const std::string key = row.pair.substr(0, row.pair.find('='));
    EXPECT_EQ(log_of(row.pair, {}),
              "warning: config: command line " + key + " has no effect with " + row.reason + "\n");
    EXPECT_EQ(log_of(row.pair, row.cure), "") << row.pair;
  }
}

/// The lines of a run with four experts.
std::string log_with_experts(std::vector<std::string> pairs) {
  pairs.insert(pairs.end(),
               {"dataset_type=synthetic", "enable_checkpointing=false", "base_output_directory=x", "num_experts=4"});
  testing::internal::CaptureStderr();
  for_a_run(pairs);
  return testing::internal::GetCapturedStderr();
}

TEST(CheckTogether, KeysOfExpertsThatChangeNothingDrawALine) {
  const auto warning = [](const std::string& key, const std::string& rest) {
    return "warning: config: command line " + key + rest + "\n";
  };
  EXPECT_EQ(log_with_experts({"base_moe_mlp_dim=8"}), "");
  EXPECT_EQ(log_with_experts({}), "config: base_moe_mlp_dim=-1: each expert is base_mlp_dim=7168 wide\n");
  const auto log_of = [](std::vector<std::string> pairs) {
    pairs.emplace_back("base_moe_mlp_dim=8");
    return log_with_experts(pairs);
  };
  EXPECT_EQ(log_of({"capacity_factor=1.5"}),
            warning("capacity_factor", " has no effect with sparse_matmul=true: no token is dropped"));
  EXPECT_EQ(
      log_of({"sparse_matmul=false"}),
      warning("sparse_matmul",
              "=false has no effect without capacity_factor: the chosen experts alone are computed all the same"));
  EXPECT_EQ(log_of({"sparse_matmul=false", "capacity_factor=1.5"}), "");
  EXPECT_EQ(log_of({"megablox=false"}),
            warning("megablox",
                    "=false is recognised but has no effect: the chosen experts are always computed as "
                    "grouped products"));
  EXPECT_EQ(log_of({"moe_global_load_balancing=true"}),
            warning("moe_global_load_balancing", "=true is recognised but has no effect: one rank sees every token"));
  EXPECT_EQ(log_of({"load_balance_loss_form=olmo"}),
            warning("load_balance_loss_form", " has no effect with load_balance_loss_weight=0"));
  const std::string divisor =
      warning("moe_aux_divisor", " has no effect: it divides load_balance_loss_form=olmo and the router z loss");
  EXPECT_EQ(log_of({"moe_aux_divisor=loss_tokens"}), divisor);
  EXPECT_EQ(log_of({"moe_aux_divisor=loss_tokens", "load_balance_loss_weight=1"}), divisor);
  EXPECT_EQ(log_of({"moe_aux_divisor=loss_tokens", "load_balance_loss_weight=1", "load_balance_loss_form=olmo"}), "");
  EXPECT_EQ(log_of({"moe_aux_divisor=loss_tokens", "router_z_loss_weight=1"}), "");
  EXPECT_EQ(
      log_of({"moe_aux_loss_reduction=sum"}),
      warning("moe_aux_loss_reduction", " has no effect: load_balance_loss_weight and router_z_loss_weight are 0"));
  EXPECT_EQ(log_of({"moe_aux_loss_reduction=sum", "router_z_loss_weight=1"}), "");
  EXPECT_EQ(log_of({"log_moe_bias_norms=true"}),
            warning("log_moe_bias_norms", " has no effect with routed_bias=false"));
  EXPECT_EQ(log_of({"log_moe_bias_norms=true", "routed_bias=true"}), "");
  EXPECT_EQ(log_of({"log_moe_bias_norms=true", "routed_bias=true", "decoder_block=gpt_oss"}),
            warning("log_moe_bias_norms", " has no effect with decoder_block=gpt_oss"));
}

TEST(CheckTogether, GroupsOfTheBalanceLossLieInOneMicroBatch) {
  const auto refusal_of = [](const std::vector<std::string>& more) {
    std::vector<std::string> pairs = {"num_experts=4", "base_moe_mlp_dim=8", "moe_lb_group_instances=2",
                                      "load_balance_loss_weight=1"};
    if (more.size() < 2 || !more[1].starts_with("per_device")) pairs.emplace_back("per_device_batch_size=4");
    pairs.insert(pairs.end(), more.begin(), more.end());
    return config_error([&] { config_from_pairs(pairs); });
  };
  EXPECT_EQ(
      refusal_of({}),
      "config: moe_lb_group_instances=2 (command line), load_balance_scope=sequence (default): groups of rows are "
      "statistics of a batch; try load_balance_scope=batch");
  EXPECT_EQ(refusal_of({"load_balance_scope=batch", "gradient_accumulation_steps=2"}),
            "config: moe_lb_group_instances=2 (command line), gradient_accumulation_steps=2 (command line), "
            "gradient_accumulation_split=strided (default): micro-batches of strided rows tear the groups apart; try "
            "gradient_accumulation_split=contiguous");
  EXPECT_EQ(refusal_of({"load_balance_scope=batch", "per_device_batch_size=3"}),
            "config: command line moe_lb_group_instances: a micro-batch of 3 rows is no whole number of groups; got 2, "
            "need a divisor of the rows");
  EXPECT_EQ(refusal_of({"load_balance_scope=batch", "enable_rampup_batch_size=true"}),
            "config: moe_lb_group_instances=2 (command line), enable_rampup_batch_size=true (command line): groups do "
            "not fit micro-batches that grow; try moe_lb_group_instances=0");
  const Config config =
      config_from_pairs({"num_experts=4", "base_moe_mlp_dim=8", "moe_lb_group_instances=2", "per_device_batch_size=4",
                         "load_balance_scope=batch", "gradient_accumulation_steps=2",
                         "gradient_accumulation_split=contiguous", "load_balance_loss_weight=1"});
  EXPECT_EQ(config.moe_lb_group_instances, 2);
}

TEST(CheckTogether, RowsBeyondTheModelsPositionsDrawALine) {
  const auto log_of = [](const std::string& pair) {
    testing::internal::CaptureStderr();
    for_a_run({"dataset_type=synthetic", "enable_checkpointing=false", "base_output_directory=x", pair});
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(log_of("max_position_embeddings=2047"),
            "warning: config: default max_target_length: rows of 2048 tokens are longer than the 2047 positions the "
            "model was made for (max_position_embeddings)\n");
  EXPECT_EQ(log_of("max_position_embeddings=2048"), "");
  EXPECT_EQ(log_of("max_position_embeddings=0"), "");
}

TEST(CheckTogether, ARunNeedsADataSet) {
  EXPECT_EQ(refusal({}),
            "config: dataset_type=tfds (default): not supported: TensorFlow data sets are not read; export them to "
            "Parquet or JSON lines and use dataset_type=hf; try dataset_type=synthetic, hf or recorded");
  EXPECT_EQ(refusal({"dataset_type=hf"}),
            "config: dataset_type=hf (command line), hf_path='' (default): no data set to read; try hf_path=FOLDER or "
            "hf_train_files=FILES");
  EXPECT_EQ(refusal({"dataset_type=recorded"}),
            "config: dataset_type=recorded (command line), recorded_batches_path='' (default): no file to read; try "
            "recorded_batches_path=FILE");
  EXPECT_EQ(refusal({"dataset_type=hf", "hf_path=x"}),
            "config: dataset_type=hf (command line), tokenizer_path='' (default): text needs a tokenizer; try "
            "tokenizer_path=FILE");
  EXPECT_EQ(for_a_run({"dataset_type=hf", "hf_path=x", "tokenize_train_data=false"}).hf_path, "x");
}

TEST(CheckTogether, EvaluationOnSyntheticDataNeedsAnEnd) {
  EXPECT_EQ(refusal({"dataset_type=synthetic", "eval_interval=5"}),
            "config: dataset_type=synthetic (command line), eval_interval=5 (command line), eval_steps=-1 (default): "
            "synthetic batches never end; try eval_steps=10");
  EXPECT_EQ(for_a_run({"dataset_type=hf", "hf_path=x", "tokenizer_path=t", "eval_interval=5"}).eval_steps, -1);
  EXPECT_EQ(for_a_run({"dataset_type=synthetic", "eval_interval=5", "eval_steps=2"}).eval_steps, 2);
}

TEST(CheckTogether, EvaluationWithPaddingBatchesNeedsAnEnd) {
  EXPECT_EQ(refusal({"dataset_type=recorded", "recorded_batches_path=f", "generate_padding_batch_eval=true",
                     "eval_interval=5"}),
            "config: generate_padding_batch_eval=true (command line), eval_steps=-1 (default): padding batches never "
            "end; try eval_steps=10");
}

TEST(CheckTogether, NothingOfThatWithoutARun) {
  EXPECT_EQ(config_from_pairs({}).dataset_type, "tfds");
}

TEST(CheckTogether, KeysThatTheOptimizerDoesNotReadAreNamed) {
  ::testing::internal::CaptureStderr();
  for_a_run({"dataset_type=synthetic", "opt_type=sgd", "adam_b1=0.8", "muon_beta=0.9", "adam_b2=0.95"});
  const std::string lines = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(lines.find("adam_b1 has no effect with opt_type=sgd"), std::string::npos) << lines;
  EXPECT_NE(lines.find("muon_beta has no effect with opt_type=sgd"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("adam_b2"), std::string::npos) << lines;
  ::testing::internal::CaptureStderr();
  for_a_run({"dataset_type=synthetic", "opt_type=muon", "adam_b1=0.8", "muon_beta=0.9"});
  EXPECT_EQ(::testing::internal::GetCapturedStderr().find("has no effect"), std::string::npos);
}

TEST(AcceptedValues, AreNamedInWords) {
  EXPECT_EQ(accepted_values(*find_key("steps")), "at least 1 or -1");
  EXPECT_EQ(accepted_values(*find_key("opt_type")), "adamw, adam_pax, sgd or muon");
  EXPECT_EQ(accepted_values(*find_key("run_name")), "");
}

}  // namespace
}  // namespace ballast
