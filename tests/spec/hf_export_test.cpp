// SPDX-License-Identifier: Apache-2.0
#include "spec/hf_export.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "config/hf_config.h"
#include "config/resolve.h"
#include "spec_case.h"
#include "support/hf_folder.h"

namespace ballast::testing {
namespace {

using nlohmann::json;

const char* const kGoldenFamilies[] = {"llama", "llama2",    "qwen3",   "olmo3",       "mixtral",    "qwen3_moe",
                                       "olmoe", "flex_olmo", "gpt_oss", "deepseek_v2", "deepseek_v3"};

std::string golden_folder(const std::string& family) {
  return std::string(BALLAST_SOURCE_DIR) + "/tests/golden/" + family;
}

Config config_of_folder(const std::string& folder) {
  return config_from_pairs({"hf_model_path=" + folder});
}

json exported(const Config& config) {
  return json::parse(hf_config_text(config, {.dtype = "float32", .bos_token_id = 1, .eos_token_id = 2}));
}

json exported_small(const std::vector<std::string>& more) {
  return exported(config_from_pairs(small_pairs(more)));
}

std::string refusal(const std::vector<std::string>& more) {
  const Config config = config_from_pairs(small_pairs(more));
  try {
    return hf_config_text(config, {.dtype = "float32"});
  } catch (const ConfigError& error) {
    return error.what();
  }
}

std::map<std::string, std::string> keys_of(const std::string& folder) {
  std::map<std::string, std::string> keys;
  for (const KeyAssignment& item : hf_config_assignments(folder)) keys[item.key] = item.value_text;
  return keys;
}

// The config.json of the goldens was written by transformers.
TEST(HfExport, WritesWhatTransformersWrote) {
  // Fields of no meaning for the computation, and class defaults of the numbers they stand for.
  const std::set<std::string> left_out = {
      "attention_dropout", "initializer_range",    "transformers_version", "use_cache",          "pretraining_tp",
      "max_window_layers", "output_router_logits", "router_aux_loss_coef", "router_jitter_noise"};
  for (const std::string family : kGoldenFamilies) {
    const json written = exported(config_of_folder(golden_folder(family)));
    const json original = json::parse(std::ifstream(golden_folder(family) + "/config.json"));
    for (const auto& [field, value] : original.items()) {
      if (left_out.contains(field)) continue;
      json own = written.value(field, json());
      // What stands for null or absence in the golden, and its value by the class's formula.
      if (family == "mixtral" && field == "head_dim") own = own == 8 ? json() : own;
      if (family == "gpt_oss" && field == "rope_parameters") {
        EXPECT_NEAR(own.at("attention_factor"), 1.3465735902799727, 1e-15);
        own.erase("attention_factor");
      }
      if (family == "deepseek_v2" && field == "rope_parameters") {
        // Both say (0.1 ln 8 + 1) / (0.0707 ln 8 + 1).
        EXPECT_NEAR(own.at("attention_factor"), 1.053118360780668, 1e-15);
        own.erase("attention_factor");
        own["mscale"] = 1.0;
      }
      EXPECT_EQ(own, value) << family << " " << field;
    }
  }
}

TEST(HfExport, GivesTheSameKeysWhenReadAgain) {
  for (const std::string family : kGoldenFamilies) {
    const HfFolder again(hf_config_text(config_of_folder(golden_folder(family)), {.dtype = "float32"}));
    EXPECT_EQ(keys_of(again.path()), keys_of(golden_folder(family))) << family;
  }
}

TEST(HfExport, PublicModelsComeBackAsTheSameDecoder) {
  for (const char* text : {kLlama2_7b, kLlama31_8b, kMistral7bV01, kQwen3_0_6b, kOlmo3_7b, kMixtral8x7b, kQwen3_30bA3b,
                           kOlmoe1b7b, kGptOss20b, kDeepseekV2Lite, kDeepseekV3}) {
    const HfFolder folder(text);
    const Config config = config_of_folder(folder.path());
    const HfFolder again(hf_config_text(config, {.dtype = "bfloat16"}));
    EXPECT_EQ(make_decoder_spec(config_of_folder(again.path())), make_decoder_spec(config)) << text;
    EXPECT_EQ(json::parse(text).at("model_type"), exported(config).at("model_type"));
    EXPECT_EQ(json::parse(text).at("architectures"), exported(config).at("architectures"));
    EXPECT_EQ(json::parse(text).at("max_position_embeddings"), exported(config).at("max_position_embeddings"));
  }
}

json exported_latent(std::vector<std::string> more) {
  const std::vector<std::string> base = {
      "decoder_block=deepseek", "attention_type=mla",  "base_num_kv_heads=4", "num_experts=4",
      "num_experts_per_tok=2",  "base_moe_mlp_dim=16", "kv_lora_rank=8",      "qk_nope_head_dim=12",
      "qk_rope_head_dim=4",     "v_head_dim=6"};
  more.insert(more.begin(), base.begin(), base.end());
  return exported_small(more);
}

TEST(HfExport, FindsTheModelTypeOfLatentAttention) {
  const json v2 = exported_latent({"routed_score_func=softmax", "q_lora_rank=0"});
  EXPECT_EQ(v2.at("model_type"), "deepseek_v2");
  EXPECT_TRUE(v2.at("q_lora_rank").is_null());
  EXPECT_EQ(v2.at("topk_method"), "greedy");
  EXPECT_EQ(v2.at("first_k_dense_replace"), 0);
  const json v3 =
      exported_latent({"routed_score_func=sigmoid", "routed_bias=true", "q_lora_rank=6", "shared_experts=1"});
  EXPECT_EQ(v3.at("model_type"), "deepseek_v3");
  EXPECT_EQ(v3.at("q_lora_rank"), 6);
  EXPECT_EQ(v3.at("n_group"), 1);
  EXPECT_EQ(v3.at("topk_group"), 1);
  EXPECT_EQ(v3.at("scoring_func"), "sigmoid");
  EXPECT_EQ(v3.at("num_nextn_predict_layers"), 0);
  EXPECT_EQ(v3.at("rope_interleave"), true);
  EXPECT_EQ(v3.at("rope_parameters").at("rope_type"), "default");
}

TEST(HfExport, SaysTheSoftmaxScaleOfLatentAttention) {
  const std::vector<std::string> v3 = {"routed_score_func=sigmoid", "routed_bias=true", "rope_type=yarn"};
  const auto rope = [&](std::vector<std::string> more) {
    more.insert(more.begin(), v3.begin(), v3.end());
    return exported_latent(more).at("rope_parameters");
  };
  EXPECT_EQ(rope({"mscale=0.707"}).at("mscale"), 0.707);
  EXPECT_EQ(rope({"mscale=0.707"}).at("mscale_all_dim"), 0.707);
  EXPECT_FALSE(rope({"mscale=0.707"}).contains("attention_factor"));
  EXPECT_EQ(rope({"rope_attention_factor=1.25"}).at("attention_factor"), 1.25);
  EXPECT_EQ(rope({"rope_attention_factor=1.25"}).at("mscale_all_dim"), 1.0);
  EXPECT_FALSE(rope({"mscale=0"}).contains("mscale_all_dim"));
}

TEST(HfExport, KimiK2ComesBackAsDeepseekV3) {
  const HfFolder folder(kKimiK2);
  const Config config = config_of_folder(folder.path());
  const HfFolder again(hf_config_text(config, {.dtype = "bfloat16"}));
  EXPECT_EQ(make_decoder_spec(config_of_folder(again.path())), make_decoder_spec(config));
  EXPECT_EQ(exported(config).at("model_type"), "deepseek_v3");
}

TEST(HfExport, TheDecoderDecidesNotTheName) {
  EXPECT_EQ(exported_small({"decoder_block=llama2"}).at("model_type"), "llama");
  EXPECT_EQ(exported_small({"decoder_block=llama2", "use_qk_norm=true"}).at("model_type"), "qwen3");
  const json window = exported_small({"decoder_block=llama2", "attention_type=local_sliding", "sliding_window_size=8"});
  EXPECT_EQ(window.at("model_type"), "mistral");
  EXPECT_EQ(window.at("sliding_window"), 8);
  // A missing field would be mistral's class default, 4096.
  EXPECT_TRUE(exported_small({"decoder_block=mistral"}).at("sliding_window").is_null());
}

const std::vector<std::string> kExperts = {"num_experts=4", "num_experts_per_tok=2", "base_moe_mlp_dim=16"};

json exported_experts(const std::string& decoder_block, std::vector<std::string> more) {
  more.insert(more.end(), kExperts.begin(), kExperts.end());
  more.push_back("decoder_block=" + decoder_block);
  return exported_small(more);
}

// A softmax over all experts, renormalised over the chosen, is one over the chosen.
TEST(HfExport, FindsTheModelTypeOfEqualRouters) {
  const json mixtral = exported_experts("mixtral", {"routed_score_func=softmax", "norm_topk_prob=true"});
  EXPECT_EQ(mixtral.at("model_type"), "mixtral");
  EXPECT_EQ(mixtral.at("intermediate_size"), 16);
  EXPECT_EQ(mixtral.at("num_local_experts"), 4);
  const json qwen = exported_experts("qwen3_moe", {"use_qk_norm=true"});
  EXPECT_EQ(qwen.at("model_type"), "qwen3_moe");
  EXPECT_EQ(qwen.at("norm_topk_prob"), true);
  EXPECT_EQ(qwen.at("intermediate_size"), 48);
  EXPECT_EQ(qwen.at("moe_intermediate_size"), 16);
  EXPECT_EQ(exported_experts("qwen3", {"use_qk_norm=true", "routed_score_func=softmax"}).at("norm_topk_prob"), false);
  EXPECT_EQ(exported_experts("olmoe", {"use_qk_norm=true", "routed_score_func=softmax"}).at("model_type"), "olmoe");
}

TEST(HfExport, SaysWhichLayersHaveExperts) {
  const json qwen = exported_experts("qwen3_moe", {"use_qk_norm=true", "first_num_dense_layers=2"});
  EXPECT_EQ(qwen.at("mlp_only_layers"), json::array({0, 1}));
  const json every = exported_experts("qwen3_moe", {"use_qk_norm=true", "interleave_moe_layer_step=2"});
  EXPECT_EQ(every.at("decoder_sparse_step"), 2);
  EXPECT_EQ(every.at("mlp_only_layers"), json::array());
}

TEST(HfExport, LeavesOutHowExpertsAreTrained) {
  const json fields =
      exported_experts("mixtral", {"load_balance_loss_weight=0.01", "router_z_loss_weight=0.001", "capacity_factor=1.5",
                                   "sparse_matmul=false", "expert_init=maxtext"});
  EXPECT_EQ(fields.at("model_type"), "mixtral");
}

TEST(HfExport, WritesTheNumbersOfGptOss) {
  const json fields = exported_experts(
      "gpt_oss", {"attention_bias=true", "mlp_bias=true", "routed_bias=true", "attention_sink=true",
                  "sliding_window_size=8", "mlp_activations_limit=7", "rope_type=yarn", "rope_interleave=false"});
  EXPECT_EQ(fields.at("swiglu_alpha"), 1.702);
  EXPECT_EQ(fields.at("swiglu_limit"), 7);
  EXPECT_EQ(fields.at("layer_types"),
            json::array({"sliding_attention", "full_attention", "sliding_attention", "full_attention"}));
}

// 2^4 doubles the layers once (2^3), then the heads and the FFN (the next factor of two).
TEST(HfExport, WritesScaledSizes) {
  const json scaled = exported_small({"global_parameter_scale=16"});
  EXPECT_EQ(scaled.at("hidden_size"), 64);
  EXPECT_EQ(scaled.at("num_hidden_layers"), 8);
  EXPECT_EQ(scaled.at("num_attention_heads"), 16);
  EXPECT_EQ(scaled.at("num_key_value_heads"), 8);
  EXPECT_EQ(scaled.at("intermediate_size"), 192);
}

TEST(HfExport, NamesTheKeyThatNoFamilyCanSay) {
  const auto names = [](const std::string& key, const std::vector<std::string>& more) {
    const std::string line = refusal(more);
    EXPECT_NE(line.find(" " + key + ": no model type of Hugging Face can say this"), std::string::npos) << line;
  };
  names("decoder_block", {"decoder_block=default"});
  names("attn_logits_soft_cap", {"attn_logits_soft_cap=50"});
  names("final_logits_soft_cap", {"final_logits_soft_cap=30"});
  names("nope_layer_interval", {"nope_layer_interval=4"});
  names("use_post_attn_norm", {"use_post_attn_norm=true"});
  names("mlp_activations", {"mlp_activations=[gelu, linear]"});
  names("normalize_embedding_logits", {"logits_via_embedding=true", "normalize_embedding_logits=true"});
  names("mlp_bias", {"decoder_block=qwen3", "use_qk_norm=true", "mlp_bias=true"});
  names("rope_interleave", {"rope_type=yarn", "rope_interleave=true"});
  const auto names_of_experts = [&](const std::string& key, std::vector<std::string> more) {
    more.insert(more.end(), kExperts.begin(), kExperts.end());
    names(key, more);
  };
  names_of_experts("num_experts", {"decoder_block=llama2"});
  names_of_experts("shared_experts", {"decoder_block=mixtral", "shared_experts=1"});
  names_of_experts("routed_score_func", {"decoder_block=mixtral", "routed_score_func=sigmoid"});
  names_of_experts("routed_bias", {"decoder_block=mixtral", "routed_bias=true"});
  names_of_experts("routed_scaling_factor", {"decoder_block=mixtral", "routed_scaling_factor=2"});
  names_of_experts("first_num_dense_layers", {"decoder_block=mixtral", "first_num_dense_layers=1"});
  EXPECT_EQ(refusal({"attn_logits_soft_cap=50"}),
            "config: command line attn_logits_soft_cap: no model type of Hugging Face can say this; got 50, need 0, as "
            "model_type llama");
}

// Full layers without scaling beside sliding ones with it: transformers could, the keys cannot say what was read.
TEST(HfExport, TellsWhyNoFamilyCanBeReadAgain) {
  const std::string line = refusal({"decoder_block=olmo3", "use_qk_norm=true", "sliding_window_size=8",
                                    "rope_type=default", "local_rope_type=yarn", "rope_factor=8"});
  EXPECT_NE(line.find("rope_parameters.sliding_attention.rope_type"), std::string::npos) << line;
}

TEST(HfExport, UnknownTokenIdsAreNull) {
  const json fields = json::parse(hf_config_text(config_of_small(), {.dtype = "bfloat16", .eos_token_id = 7}));
  EXPECT_TRUE(fields.at("bos_token_id").is_null());
  EXPECT_EQ(fields.at("eos_token_id"), 7);
  EXPECT_EQ(fields.at("dtype"), "bfloat16");
}

// Meta's 8 and 8192 stand where nobody gave the keys, whose defaults are 40 and 4096; config.yml must not give them.
TEST(HfExport, ConfigYmlKeepsTheNumbersOfLlama31) {
  const Config config = config_from_pairs(small_pairs({"rope_type=llama3.1"}));
  const HfFolder folder("{}");
  std::ofstream(folder.path() + "/config.yml") << config_yml(config);
  ConfigOptions options;
  options.configs_folder = std::string(BALLAST_SOURCE_DIR) + "/configs";
  options.needs_data = false;
  options.environment.emplace();
  const Config again = resolve_config({folder.path() + "/config.yml"}, options);
  EXPECT_EQ(make_decoder_spec(again), make_decoder_spec(config));
  EXPECT_EQ(exported(again).at("rope_parameters").at("factor"), 8);
  EXPECT_EQ(exported(again).at("rope_parameters").at("original_max_position_embeddings"), 8192);
}

}  // namespace
}  // namespace ballast::testing
