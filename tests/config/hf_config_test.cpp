// SPDX-License-Identifier: Apache-2.0
#include "config/hf_config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iomanip>
#include <map>
#include <sstream>

#include "config/config.h"
#include "config/hf_alias.h"
#include "config/key_table.h"
#include "config/resolve.h"
#include "errors/errors.h"
#include "support/hf_folder.h"

namespace ballast {
namespace {

using testing::HfFolder;
using Texts = std::map<std::string, std::string>;

/// Numbers in one form, ten digits of them: "500000.0" and "5e+05" are "500000".
std::string plain(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return text;
  std::ostringstream number;
  number << std::setprecision(10) << value;
  return number.str();
}

Texts texts_of(const std::vector<KeyAssignment>& assignments) {
  Texts texts;
  for (const KeyAssignment& item : assignments) {
    EXPECT_TRUE(texts.emplace(item.key, plain(item.value_text)).second) << item.key << " twice";
  }
  return texts;
}

Texts read(const std::string& config_json) {
  return texts_of(hf_config_assignments(HfFolder(config_json).path()));
}

Texts read_golden(const std::string& family) {
  return texts_of(hf_config_assignments(std::string(BALLAST_SOURCE_DIR) + "/tests/golden/" + family));
}

/// A small config of `model_type` with more fields.
std::string small(const std::string& model_type, const std::string& fields) {
  return R"({"model_type": ")" + model_type +
         R"(", "vocab_size": 128, "hidden_size": 32, "intermediate_size": 56, "num_hidden_layers": 4,
         "num_attention_heads": 4, "num_key_value_heads": 2)" +
         (fields.empty() ? "" : ", " + fields) + "}";
}

std::string error_of(const std::string& config_json) {
  const HfFolder folder(config_json);
  try {
    hf_config_assignments(folder.path());
  } catch (const ConfigError& error) {
    std::string line = error.what();
    const auto place = line.find(folder.path());
    EXPECT_NE(place, std::string::npos) << line << " does not name the file";
    return place == std::string::npos ? line : line.erase(place, folder.path().size() + 1);
  }
  return "no error";
}

TEST(HfConfig, ReadsEveryFieldOfGoldenLlama) {
  EXPECT_EQ(read_golden("llama"), (Texts{{"decoder_block", "llama2"},
                                         {"mlp_activations", "[silu, linear]"},
                                         {"use_qk_norm", "false"},
                                         {"normalize_embedding_logits", "false"},
                                         {"rope_interleave", "false"},
                                         {"vocab_size", "128"},
                                         {"base_emb_dim", "32"},
                                         {"base_num_decoder_layers", "3"},
                                         {"base_num_query_heads", "4"},
                                         {"base_num_kv_heads", "2"},
                                         {"head_dim", "16"},
                                         {"base_mlp_dim", "56"},
                                         {"max_position_embeddings", "256"},
                                         {"normalization_layer_epsilon", "1e-05"},
                                         {"logits_via_embedding", "false"},
                                         {"attention_bias", "false"},
                                         {"mlp_bias", "false"},
                                         {"rope_type", "llama3.1"},
                                         {"rope_max_timescale", "500000"},
                                         {"rope_factor", "8"},
                                         {"rope_low_freq_factor", "1"},
                                         {"rope_high_freq_factor", "4"},
                                         {"original_max_position_embeddings", "32"}}));
}

TEST(HfConfig, ReadsEveryFieldOfGoldenLlama2) {
  EXPECT_EQ(read_golden("llama2"), (Texts{{"decoder_block", "llama2"},
                                          {"mlp_activations", "[silu, linear]"},
                                          {"use_qk_norm", "false"},
                                          {"normalize_embedding_logits", "false"},
                                          {"rope_interleave", "false"},
                                          {"vocab_size", "128"},
                                          {"base_emb_dim", "32"},
                                          {"base_num_decoder_layers", "3"},
                                          {"base_num_query_heads", "4"},
                                          {"base_num_kv_heads", "4"},
                                          {"head_dim", "8"},
                                          {"base_mlp_dim", "56"},
                                          {"max_position_embeddings", "256"},
                                          {"normalization_layer_epsilon", "1e-05"},
                                          {"logits_via_embedding", "false"},
                                          {"attention_bias", "false"},
                                          {"mlp_bias", "false"},
                                          {"rope_type", "default"},
                                          {"rope_max_timescale", "10000"}}));
}

TEST(HfConfig, ReadsEveryFieldOfGoldenQwen3) {
  EXPECT_EQ(read_golden("qwen3"), (Texts{{"decoder_block", "qwen3"},
                                         {"mlp_activations", "[silu, linear]"},
                                         {"use_qk_norm", "true"},
                                         {"normalize_embedding_logits", "false"},
                                         {"rope_interleave", "false"},
                                         {"vocab_size", "128"},
                                         {"base_emb_dim", "32"},
                                         {"base_num_decoder_layers", "3"},
                                         {"base_num_query_heads", "4"},
                                         {"base_num_kv_heads", "2"},
                                         {"head_dim", "16"},
                                         {"base_mlp_dim", "56"},
                                         {"max_position_embeddings", "256"},
                                         {"normalization_layer_epsilon", "1e-06"},
                                         {"logits_via_embedding", "true"},
                                         {"attention_bias", "false"},
                                         {"rope_type", "default"},
                                         {"rope_max_timescale", "1000000"},
                                         {"attention_type", "global"}}));
}

TEST(HfConfig, ReadsEveryFieldOfGoldenOlmo3) {
  EXPECT_EQ(read_golden("olmo3"),
            (Texts{{"decoder_block", "olmo3"},
                   {"mlp_activations", "[silu, linear]"},
                   {"use_qk_norm", "true"},
                   {"normalize_embedding_logits", "false"},
                   {"rope_interleave", "false"},
                   {"vocab_size", "128"},
                   {"base_emb_dim", "32"},
                   {"base_num_decoder_layers", "4"},
                   {"base_num_query_heads", "4"},
                   {"base_num_kv_heads", "2"},
                   {"head_dim", "8"},
                   {"base_mlp_dim", "48"},
                   {"max_position_embeddings", "256"},
                   {"normalization_layer_epsilon", "1e-06"},
                   {"logits_via_embedding", "false"},
                   {"attention_bias", "false"},
                   {"rope_type", "yarn"},
                   {"local_rope_type", "default"},
                   {"rope_max_timescale", "500000"},
                   {"rope_factor", "8"},
                   {"original_max_position_embeddings", "32"},
                   {"beta_fast", "32"},
                   {"beta_slow", "1"},
                   {"rope_attention_factor", "1.207944154"},
                   {"rope_truncate", "true"},
                   {"layer_types", "[sliding_attention, sliding_attention, sliding_attention, full_attention]"},
                   {"sliding_window_size", "16"}}));
}

TEST(HfConfig, ReadsLlama31InTheOldSpelling) {
  const Texts texts = read(testing::kLlama31_8b);
  EXPECT_EQ(texts.at("base_num_kv_heads"), "8");
  EXPECT_EQ(texts.at("head_dim"), "128");  // 4096 / 32
  EXPECT_EQ(texts.at("rope_type"), "llama3.1");
  EXPECT_EQ(texts.at("rope_max_timescale"), "500000");
  EXPECT_EQ(texts.at("rope_factor"), "8");
  EXPECT_EQ(texts.at("original_max_position_embeddings"), "8192");
  EXPECT_EQ(texts.at("max_position_embeddings"), "131072");
  EXPECT_EQ(texts.at("vocab_size"), "128256");
}

TEST(HfConfig, FillsInTheClassDefaultsOfAnOldLlamaFile) {
  const HfFolder folder(testing::kLlama2_7b);
  Texts origins;
  for (const KeyAssignment& item : hf_config_assignments(folder.path())) origins[item.key] = item.origin;
  const Texts texts = read(testing::kLlama2_7b);
  EXPECT_EQ(texts.at("rope_max_timescale"), "10000");
  EXPECT_EQ(texts.at("attention_bias"), "false");
  EXPECT_EQ(texts.at("head_dim"), "128");
  EXPECT_EQ(origins.at("rope_max_timescale"), "default of model_type llama");
  EXPECT_EQ(origins.at("attention_bias"), "default of model_type llama");
  EXPECT_EQ(origins.at("base_emb_dim"), "config.json:hidden_size");
  EXPECT_EQ(origins.at("head_dim"), "config.json:hidden_size/num_attention_heads");
}

TEST(HfConfig, OnlyWhatTheFileSetsIsHard) {
  const HfFolder folder(testing::kLlama2_7b);
  const std::string model = "hf_model_path=" + std::string(folder.path());
  EXPECT_EQ(config_from_pairs({model, "rope_max_timescale=20000"}).rope_max_timescale, 20000);
  EXPECT_THROW(config_from_pairs({model, "base_emb_dim=64"}), ConfigError);
}

TEST(HfConfig, ReadsQwen3InTheOldSpelling) {
  const Texts texts = read(testing::kQwen3_0_6b);
  EXPECT_EQ(texts.at("head_dim"), "128");
  EXPECT_EQ(texts.at("logits_via_embedding"), "true");
  EXPECT_EQ(texts.at("rope_max_timescale"), "1000000");
  EXPECT_EQ(texts.at("attention_type"), "global");
  EXPECT_FALSE(texts.contains("sliding_window_size"));
}

TEST(HfConfig, ScalesOnlyTheFullLayersOfAnOldOlmo3File) {
  const Texts texts = read(testing::kOlmo3_7b);
  EXPECT_EQ(texts.at("rope_type"), "yarn");
  EXPECT_EQ(texts.at("local_rope_type"), "default");
  EXPECT_EQ(texts.at("rope_attention_factor"), "1.207944154");
  EXPECT_EQ(texts.at("original_max_position_embeddings"), "8192");
  EXPECT_EQ(texts.at("sliding_window_size"), "4096");
  EXPECT_FALSE(texts.contains("layer_types"));  // the pattern is the decoder's own
  EXPECT_FALSE(texts.contains("local_rope_max_timescale"));
}

TEST(HfConfig, UsesRopeThetaForTheSlidingLayersOfAnOldOlmo3FileToo) {
  ::testing::internal::CaptureStderr();
  const Texts texts = read(small("olmo3", R"("rope_theta": 10000.0)"));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(texts.at("rope_max_timescale"), "10000");
  EXPECT_FALSE(texts.contains("local_rope_max_timescale"));
  EXPECT_NE(log.find("rope_theta: taken for sliding layers too"), std::string::npos) << log;
}

TEST(HfConfig, TakesAFlatRopeOfOlmo3ForAllLayers) {
  ::testing::internal::CaptureStderr();
  const Texts texts =
      read(small("olmo3", R"("rope_parameters": {"rope_type": "linear", "factor": 4, "rope_theta": 7e3})"));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(texts.at("rope_type"), "linear");
  EXPECT_EQ(texts.at("rope_linear_scaling_factor"), "4");
  EXPECT_EQ(texts.at("rope_max_timescale"), "7000");
  EXPECT_FALSE(texts.contains("local_rope_type"));
  EXPECT_NE(log.find("taken for full and sliding layers alike"), std::string::npos) << log;
}

TEST(HfConfig, GivesTheSlidingLayersTheirOwnTheta) {
  const Texts texts = read(small("olmo3", R"("rope_parameters": {"full_attention": {"rope_theta": 1e6}})"));
  EXPECT_EQ(texts.at("rope_max_timescale"), "1000000");
  EXPECT_EQ(texts.at("local_rope_max_timescale"), "500000");  // class default
}

TEST(HfConfig, SlidesEveryLayerOfMistralUnlessTheWindowIsNull) {
  const Texts v01 = read(testing::kMistral7bV01);
  EXPECT_EQ(v01.at("attention_type"), "local_sliding");
  EXPECT_EQ(v01.at("sliding_window_size"), "4096");
  EXPECT_FALSE(v01.contains("attention_bias"));
  const Texts absent = read(small("mistral", ""));
  EXPECT_EQ(absent.at("attention_type"), "local_sliding");
  EXPECT_EQ(absent.at("sliding_window_size"), "4096");
  const Texts null = read(small("mistral", R"("sliding_window": null)"));
  EXPECT_EQ(null.at("attention_type"), "global");
  EXPECT_FALSE(null.contains("sliding_window_size"));
}

TEST(HfConfig, TellsNullKeyValueHeadsFromAbsentOnes) {
  const std::string head = R"({"model_type": "mistral", "num_attention_heads": 32)";
  EXPECT_EQ(read(head + "}").at("base_num_kv_heads"), "8");
  EXPECT_EQ(read(head + R"(, "num_key_value_heads": null})").at("base_num_kv_heads"), "32");
  EXPECT_EQ(read(R"({"model_type": "llama", "num_attention_heads": 16})").at("base_num_kv_heads"), "16");
}

TEST(HfConfig, DoesNotDeriveTheHeadWidthOfQwen3) {
  EXPECT_EQ(read(small("qwen3", "")).at("head_dim"), "128");
  EXPECT_EQ(read(small("qwen3", R"("head_dim": 64)")).at("head_dim"), "64");
  EXPECT_EQ(read(small("llama", "")).at("head_dim"), "8");
  EXPECT_EQ(read(small("llama", R"("head_dim": null)")).at("head_dim"), "8");
}

TEST(HfConfig, SlidesTheLateLayersOfQwen3) {
  const Texts texts =
      read(small("qwen3", R"("use_sliding_window": true, "sliding_window": 64, "max_window_layers": 3)"));
  EXPECT_EQ(texts.at("layer_types"), "[full_attention, full_attention, full_attention, sliding_attention]");
  EXPECT_EQ(texts.at("sliding_window_size"), "64");
  const Texts off = read(small("qwen3", R"("sliding_window": 64, "max_window_layers": 3)"));
  EXPECT_EQ(off.at("attention_type"), "global");
  EXPECT_FALSE(off.contains("layer_types"));
}

TEST(HfConfig, LetsLayerTypesWinOverMaxWindowLayers) {
  const Texts texts = read(small("qwen3", R"("use_sliding_window": true, "sliding_window": 64, "max_window_layers": 3,
      "layer_types": ["sliding_attention", "full_attention", "full_attention", "full_attention"])"));
  EXPECT_EQ(texts.at("layer_types"), "[sliding_attention, full_attention, full_attention, full_attention]");
}

TEST(HfConfig, AcceptsTheOlderNameOfRopeType) {
  const Texts texts = read(small("llama", R"("rope_scaling": {"type": "linear", "factor": 2.5})"));
  EXPECT_EQ(texts.at("rope_type"), "linear");
  EXPECT_EQ(texts.at("rope_linear_scaling_factor"), "2.5");
}

TEST(HfConfig, PrefersTheOriginalLengthAtTheTopLevel) {
  const std::string scaling = R"("max_position_embeddings": 256, "rope_scaling": {"rope_type": "yarn", "factor": 4.0)";
  const auto length = [&](const std::string& end) {
    return read(small("llama", scaling + end)).at("original_max_position_embeddings");
  };
  EXPECT_EQ(length("}"), "256");
  EXPECT_EQ(length(R"(, "original_max_position_embeddings": 64})"), "64");
  EXPECT_EQ(length(R"(, "original_max_position_embeddings": 64}, "original_max_position_embeddings": 32)"), "32");
}

TEST(HfConfig, DerivesANullYarnFactorFromTheLengths) {
  const Texts texts = read(small("llama", R"("max_position_embeddings": 256,
      "rope_scaling": {"rope_type": "yarn", "factor": null, "original_max_position_embeddings": 64})"));
  EXPECT_EQ(texts.at("rope_factor"), "4");
  EXPECT_EQ(texts.at("rope_attention_factor"), "1.138629436");  // 0.1 ln 4 + 1
}

TEST(HfConfig, ResolvesTheYarnAttentionFactor) {
  const auto factor = [&](const std::string& fields) {
    const std::string scaling = R"("rope_scaling": {"rope_type": "yarn", "original_max_position_embeddings": 64, )";
    return std::stod(read(small("llama", scaling + fields + "}")).at("rope_attention_factor"));
  };
  EXPECT_NEAR(factor(R"("factor": 40)"), 1.3688879454113936, 1e-9);  // 0.1 ln 40 + 1
  EXPECT_EQ(factor(R"("factor": 1.0)"), 1.0);
  EXPECT_EQ(factor(R"("factor": 40, "attention_factor": 0.75)"), 0.75);
  // (0.1 * 0.707 ln 40 + 1) / (0.1 ln 40 + 1)
  EXPECT_NEAR(factor(R"("factor": 40, "mscale": 0.707, "mscale_all_dim": 1.0)"), 0.9210423553163399, 1e-9);
  EXPECT_EQ(factor(R"("factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707)"), 1.0);
  EXPECT_NEAR(factor(R"("factor": 40, "mscale": 0.707)"), 1.3688879454113936, 1e-9);  // one alone has no effect
}

TEST(HfConfig, ReadsTruncateFromFlatObjectsOnly) {
  const std::string yarn = R"({"rope_type": "yarn", "factor": 4, "truncate": false})";
  EXPECT_EQ(read(small("qwen3", R"("rope_parameters": )" + yarn)).at("rope_truncate"), "false");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(read(small("olmo3", R"("rope_parameters": {"full_attention": )" + yarn + "}")).at("rope_truncate"), "true");
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("rope_parameters.full_attention.truncate: not used"), std::string::npos) << log;
}

TEST(HfConfig, ReadsAPartialRotation) {
  EXPECT_EQ(read(small("llama", R"("partial_rotary_factor": 0.5)")).at("partial_rotary_factor"), "0.5");
  EXPECT_EQ(read(small("llama", R"("rope_parameters": {"partial_rotary_factor": 0.25})")).at("partial_rotary_factor"),
            "0.25");
  EXPECT_FALSE(read(small("llama", "")).contains("partial_rotary_factor"));
}

TEST(HfConfig, TakesNullForAbsent) {
  const Texts texts = read(small("olmo3", R"("rms_norm_eps": null, "tie_word_embeddings": null, "rope_scaling": null,
      "rope_theta": null, "layer_types": null, "quantization_config": null, "hidden_act": null)"));
  EXPECT_EQ(texts.at("normalization_layer_epsilon"), "1e-05");
  EXPECT_EQ(texts.at("logits_via_embedding"), "false");
  EXPECT_EQ(texts.at("rope_max_timescale"), "500000");
}

TEST(HfConfig, KeepsAnUnlimitedLength) {
  EXPECT_EQ(read(small("llama", R"("max_position_embeddings": -1)")).at("max_position_embeddings"), "-1");
}

TEST(HfConfig, WarnsOnceOfAFieldItDoesNotKnow) {
  const std::string config = small("llama", R"("fancy_gate_width": 3, "another_absent_one": null)");
  ::testing::internal::CaptureStderr();
  read(config);
  read(config);
  const std::string log = ::testing::internal::GetCapturedStderr();
  const auto first = log.find("fancy_gate_width: not a field of model_type llama, not used");
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("fancy_gate_width", first + 1), std::string::npos) << log;
  EXPECT_EQ(log.find("another_absent_one"), std::string::npos) << log;
}

TEST(HfConfig, SaysInOneLineThatRecipeFieldsAreNotUsed) {
  ::testing::internal::CaptureStderr();
  const Texts texts = read(small("llama", R"("dtype": "bfloat16", "attention_dropout": 0.1, "use_cache": true)"));
  std::istringstream log(::testing::internal::GetCapturedStderr());
  std::vector<std::string> lines;
  for (std::string line; std::getline(log, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 1);
  EXPECT_NE(lines[0].find("config.json: dtype, attention_dropout not used"), std::string::npos) << lines[0];
  EXPECT_FALSE(texts.contains("dtype"));
  EXPECT_FALSE(texts.contains("dropout_rate"));
}

TEST(HfConfig, RefusesWhatItCannotRead) {
  EXPECT_EQ(error_of("{"), "config: config.json: not JSON; got a fault at byte 2, need one JSON object");
  EXPECT_EQ(error_of("[1]"), "config: config.json: not an object; got array, need one JSON object");
  EXPECT_EQ(error_of("{}"),
            "config: config.json model_type: missing; need llama, mistral, qwen3, olmo3, mixtral, qwen3_moe, olmoe, "
            "flex_olmo, gpt_oss, deepseek_v2 or deepseek_v3");
  EXPECT_EQ(
      error_of(R"({"model_type": "mamba"})"),
      "config: config.json model_type: not built; got mamba, need llama, mistral, qwen3, olmo3, mixtral, qwen3_moe, "
      "olmoe, flex_olmo, gpt_oss, deepseek_v2 or deepseek_v3");
  EXPECT_EQ(error_of(R"({"model_type": "llama", "hidden_size": "big"})"),
            "config: config.json hidden_size: wrong type; got \"big\", need an integer");
  EXPECT_EQ(error_of(small("llama", R"("rms_norm_eps": [1])")),
            "config: config.json rms_norm_eps: wrong type; got [1], need a number");
  EXPECT_EQ(error_of(small("llama", R"("tie_word_embeddings": 1)")),
            "config: config.json tie_word_embeddings: wrong type; got 1, need true or false");
  EXPECT_EQ(error_of(R"({"model_type": "llama", "hidden_size": 30, "num_attention_heads": 4})"),
            "config: config.json hidden_size: head_dim is absent and the heads do not share hidden_size evenly; "
            "got 30 on 4 heads, need a multiple of the heads");
}

TEST(HfConfig, RefusesWhatWouldChangeTheComputation) {
  const std::string tail = ": changes the computation in a way that is not built; got ";
  const auto line = [&](const std::string& field, const std::string& value) {
    return error_of(small("llama", "\"" + field + "\": " + value));
  };
  EXPECT_EQ(line("hidden_act", "\"gelu\""), "config: config.json hidden_act" + tail + "\"gelu\", need silu");
  EXPECT_EQ(line("use_bidirectional_attention", "true"),
            "config: config.json use_bidirectional_attention" + tail + "true, need causal attention (false)");
  EXPECT_EQ(
      line("quantization_config", R"({"bits":4})"),
      "config: config.json quantization_config: no decoder for these weights; got {\"bits\":4}, need MXFP4, or none");
  EXPECT_EQ(line("attn_logit_softcapping", "50"),
            "config: config.json attn_logit_softcapping" + tail + "50, need null");
  EXPECT_EQ(line("router_jitter_noise", "0.1"), "config: config.json router_jitter_noise" + tail + "0.1, need 0");
  EXPECT_EQ(line("router_jitter_noise", "0"), "no error");
}

TEST(HfConfig, RefusesLayerTypesItCannotBuild) {
  EXPECT_EQ(error_of(small("olmo3", R"("layer_types": ["full_attention"])")),
            "config: config.json layer_types: one entry a layer; got 1 entries, need num_hidden_layers=4");
  EXPECT_EQ(error_of(small("olmo3", R"("layer_types": ["linear_attention"])")),
            "config: config.json layer_types: unknown kind of attention; got linear_attention, need full_attention or "
            "sliding_attention");
  EXPECT_EQ(error_of(small("olmo3", R"("layer_types": "full_attention")")),
            "config: config.json layer_types: wrong type; got \"full_attention\", need a list");
  EXPECT_EQ(error_of(small("olmo3", R"("sliding_window": null)")),
            "config: config.json sliding_window: sliding layers need a window (three of four layers slide); got none, "
            "need 1 or more");
  EXPECT_EQ(error_of(small("qwen3", R"("sliding_window": 8, "layer_types":
      ["sliding_attention", "full_attention", "full_attention", "full_attention"])")),
            "config: config.json sliding_window: sliding layers need a window (layer_types with "
            "use_sliding_window=false); got none, need 1 or more");
}

TEST(HfConfig, RefusesARotationItCannotBuild) {
  EXPECT_EQ(error_of(small("llama", R"("rope_scaling": {"rope_type": "longrope", "factor": 2})")),
            "config: config.json rope_scaling.rope_type: unknown kind of rotary embedding; got longrope, need default, "
            "linear, llama3 or yarn");
  EXPECT_EQ(error_of(small("llama", R"("rope_scaling": {"rope_type": "llama3", "factor": 2})")),
            "config: config.json rope_scaling.low_freq_factor: missing; need a number, as rope_type=llama3 asks");
  EXPECT_EQ(error_of(small("llama", R"("rope_scaling": 3)")),
            "config: config.json rope_scaling: wrong type; got 3, need an object");
  EXPECT_EQ(error_of(small("llama", R"("rope_parameters": {"full_attention": {"rope_theta": 1e4}})")),
            "config: config.json rope_parameters: one entry a kind of attention is not a form of model_type llama; "
            "need rope_type, rope_theta and scaling fields");
  EXPECT_EQ(error_of(small("olmo3", R"("rope_parameters": {"main": {"rope_theta": 1e4}})")),
            "config: config.json rope_parameters.main: unknown kind of attention; got main, need full_attention or "
            "sliding_attention");
  EXPECT_EQ(
      error_of(small("olmo3", R"("rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 2}})")),
      "config: config.json rope_parameters.sliding_attention.rope_type: the scaling of sliding layers is neither "
      "none nor that of the full layers; got linear, need default or equal fields");
  EXPECT_EQ(error_of(small("llama", R"("max_position_embeddings": -1, "rope_scaling": {"type": "yarn", "factor": 4})")),
            "config: config.json rope_scaling.original_max_position_embeddings: missing; need a number, as "
            "rope_type=yarn asks");
}

TEST(HfConfig, NamesAMissingFolderAndAMissingFile) {
  EXPECT_THROW(hf_config_assignments("/no/such/folder"), ConfigError);
  try {
    hf_config_assignments("/no/such/folder");
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "config: hf_model_path: no such folder; got /no/such/folder, need a folder with config.json");
  }
  const HfFolder folder("{}");
  std::filesystem::remove(folder.path() + "/config.json");
  try {
    hf_config_assignments(folder.path());
    ADD_FAILURE() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.what(), "config: " + folder.path() +
                                "/config.json: cannot be read; need the config.json of a Hugging Face model");
  }
}

TEST(HfConfig, ReadsEveryFieldOfGoldenGptOss) {
  EXPECT_EQ(read_golden("gpt_oss"),
            (Texts{{"decoder_block", "gpt_oss"},
                   {"mlp_activations", "[silu, linear]"},
                   {"use_qk_norm", "false"},
                   {"normalize_embedding_logits", "false"},
                   {"rope_interleave", "false"},
                   {"routed_score_func", ""},
                   {"attention_sink", "true"},
                   {"routed_bias", "true"},
                   {"mlp_bias", "true"},
                   {"vocab_size", "128"},
                   {"base_emb_dim", "32"},
                   {"base_num_decoder_layers", "4"},
                   {"base_num_query_heads", "4"},
                   {"base_num_kv_heads", "2"},
                   {"head_dim", "16"},
                   {"base_mlp_dim", "16"},
                   {"base_moe_mlp_dim", "16"},
                   {"num_experts", "4"},
                   {"num_experts_per_tok", "2"},
                   {"mlp_activations_limit", "1.5"},
                   {"mlp_activations_alpha", "1.702"},
                   {"max_position_embeddings", "256"},
                   {"normalization_layer_epsilon", "1e-05"},
                   {"logits_via_embedding", "false"},
                   {"attention_bias", "true"},
                   {"layer_types", "[sliding_attention, full_attention, sliding_attention, full_attention]"},
                   {"sliding_window_size", "16"},
                   {"rope_type", "yarn"},
                   {"rope_max_timescale", "150000"},
                   {"rope_factor", "32"},
                   {"original_max_position_embeddings", "32"},
                   {"beta_fast", "32"},
                   {"beta_slow", "1"},
                   {"rope_attention_factor", "1.34657359"},
                   {"rope_truncate", "false"}}));
}

TEST(HfConfig, ReadsEveryFieldOfGoldenDeepseekV3) {
  EXPECT_EQ(read_golden("deepseek_v3"), (Texts{{"decoder_block", "deepseek"},
                                               {"mlp_activations", "[silu, linear]"},
                                               {"use_qk_norm", "false"},
                                               {"normalize_embedding_logits", "false"},
                                               {"routed_score_func", "sigmoid"},
                                               {"attention_type", "mla"},
                                               {"routed_bias", "true"},
                                               {"vocab_size", "128"},
                                               {"base_emb_dim", "32"},
                                               {"base_num_decoder_layers", "4"},
                                               {"base_num_query_heads", "4"},
                                               {"base_num_kv_heads", "4"},
                                               {"base_mlp_dim", "48"},
                                               {"max_position_embeddings", "256"},
                                               {"normalization_layer_epsilon", "1e-06"},
                                               {"logits_via_embedding", "false"},
                                               {"attention_bias", "false"},
                                               {"q_lora_rank", "20"},
                                               {"kv_lora_rank", "16"},
                                               {"qk_nope_head_dim", "12"},
                                               {"qk_rope_head_dim", "8"},
                                               {"v_head_dim", "10"},
                                               {"num_experts", "8"},
                                               {"num_experts_per_tok", "2"},
                                               {"shared_experts", "1"},
                                               {"base_moe_mlp_dim", "12"},
                                               {"first_num_dense_layers", "1"},
                                               {"routed_scaling_factor", "2.5"},
                                               {"norm_topk_prob", "true"},
                                               {"n_routing_groups", "4"},
                                               {"topk_routing_group", "2"},
                                               {"rope_interleave", "true"},
                                               {"rope_type", "yarn"},
                                               {"rope_max_timescale", "10000"},
                                               {"rope_factor", "40"},
                                               {"original_max_position_embeddings", "32"},
                                               {"beta_fast", "32"},
                                               {"beta_slow", "1"},
                                               {"mscale", "1"},
                                               {"rope_attention_factor", "1"},
                                               {"rope_truncate", "true"}}));
}

TEST(HfConfig, KnowsTheClassDefaultsOfDeepseek) {
  Texts v2 = read(R"({"model_type": "deepseek_v2", "num_experts_per_tok": 6})");
  EXPECT_EQ(v2["vocab_size"], "102400");
  EXPECT_EQ(v2["base_num_kv_heads"], "32");
  EXPECT_EQ(v2["max_position_embeddings"], "2048");
  EXPECT_EQ(v2["num_experts"], "64");
  EXPECT_EQ(v2["shared_experts"], "2");
  EXPECT_EQ(v2["base_moe_mlp_dim"], "1407");
  EXPECT_EQ(v2["base_mlp_dim"], "11008");
  EXPECT_EQ(v2["first_num_dense_layers"], "0");
  EXPECT_EQ(v2["routed_scaling_factor"], "1");
  EXPECT_EQ(v2["q_lora_rank"], "1536");
  EXPECT_EQ(v2["kv_lora_rank"], "512");
  EXPECT_EQ(v2["qk_nope_head_dim"], "128");
  EXPECT_EQ(v2["qk_rope_head_dim"], "64");
  EXPECT_EQ(v2["v_head_dim"], "128");
  EXPECT_EQ(v2["n_routing_groups"], "-1");
  EXPECT_EQ(v2["routed_bias"], "false");
  EXPECT_EQ(v2["rope_interleave"], "true");
  EXPECT_EQ(v2["norm_topk_prob"], "false");
  EXPECT_EQ(v2.count("head_dim"), 0);
  Texts v3 = read(R"({"model_type": "deepseek_v3"})");
  EXPECT_EQ(v3["vocab_size"], "129280");
  EXPECT_EQ(v3["base_emb_dim"], "7168");
  EXPECT_EQ(v3["base_num_decoder_layers"], "61");
  EXPECT_EQ(v3["base_num_kv_heads"], "128");
  EXPECT_EQ(v3["max_position_embeddings"], "4096");
  EXPECT_EQ(v3["num_experts"], "256");
  EXPECT_EQ(v3["num_experts_per_tok"], "8");
  EXPECT_EQ(v3["shared_experts"], "1");
  EXPECT_EQ(v3["base_moe_mlp_dim"], "2048");
  EXPECT_EQ(v3["base_mlp_dim"], "18432");
  EXPECT_EQ(v3["first_num_dense_layers"], "3");
  EXPECT_EQ(v3["routed_scaling_factor"], "2.5");
  EXPECT_EQ(v3["q_lora_rank"], "1536");
  EXPECT_EQ(v3["n_routing_groups"], "8");
  EXPECT_EQ(v3["topk_routing_group"], "4");
  EXPECT_EQ(v3["norm_topk_prob"], "true");
  EXPECT_EQ(v3["rope_type"], "default");
  EXPECT_EQ(v3["rope_interleave"], "true");
}

TEST(HfConfig, ReadsTheSpellingsOfDeepseek) {
  EXPECT_EQ(read(R"({"model_type": "deepseek_v3", "q_lora_rank": null})")["q_lora_rank"], "0");
  EXPECT_EQ(read(R"({"model_type": "deepseek_v3", "num_local_experts": 16})")["num_experts"], "16");
  EXPECT_EQ(read(R"({"model_type": "deepseek_v3", "rope_interleave": false})")["rope_interleave"], "false");
  EXPECT_EQ(read(R"({"model_type": "deepseek_v3", "num_attention_heads": 8, "num_key_value_heads": null})")
                ["base_num_kv_heads"],
            "8");
  EXPECT_EQ(read(R"({"model_type": "kimi_k2", "n_routed_experts": 384})")["num_experts"], "384");
  const std::string v2 = R"({"model_type": "deepseek_v2", "num_experts_per_tok": 6, )";
  EXPECT_EQ(read(v2 + R"("num_experts": 32})")["num_experts"], "32");
  Texts greedy = read(v2 + R"("topk_method": "greedy", "n_group": 8, "topk_group": 3})");
  EXPECT_EQ(greedy["n_routing_groups"], "-1");
  EXPECT_EQ(greedy["topk_routing_group"], "-1");
  Texts limited = read(v2 + R"("topk_method": "group_limited_greedy", "n_group": 8, "topk_group": 3})");
  EXPECT_EQ(limited["n_routing_groups"], "8");
  EXPECT_EQ(limited["topk_routing_group"], "3");
}

// transformers keys the softmax scale off mscale_all_dim, cos and sin off the quotient of both.
TEST(HfConfig, ReadsBothScalesOfYarnWithLatentAttention) {
  const auto with = [](const std::string& fields) {
    return read(R"({"model_type": "deepseek_v3", "rope_scaling": {"type": "yarn", "factor": 40)" + fields + "}}");
  };
  Texts both = with(R"(, "mscale": 0.707, "mscale_all_dim": 0.707)");
  EXPECT_EQ(both["mscale"], "0.707");
  EXPECT_EQ(both["rope_attention_factor"], "1");
  Texts neither = with("");
  EXPECT_EQ(neither["mscale"], "0");
  EXPECT_EQ(neither["rope_attention_factor"], "1.368887945");  // 0.1 ln 40 + 1
  Texts all_dim = with(R"(, "mscale_all_dim": 1.0)");
  EXPECT_EQ(all_dim["mscale"], "1");
  EXPECT_EQ(all_dim["rope_attention_factor"], "1.368887945");
  EXPECT_EQ(with(R"(, "mscale": 1.0)")["mscale"], "0");
  EXPECT_EQ(error_of(R"({"model_type": "deepseek_v3", "rope_scaling": {"rope_type": "linear", "factor": 4,
                         "mscale_all_dim": 1.0}})"),
            "config: config.json rope_scaling.mscale_all_dim: a softmax scale that is not built with rope_type=linear; "
            "got 1, need 0, or rope_type=yarn");
  EXPECT_EQ(read_golden("qwen3").count("mscale"), 0);
}

TEST(HfConfig, RefusesOtherRoutersOfDeepseek) {
  const std::string v2 = R"({"model_type": "deepseek_v2", "num_experts_per_tok": 6, )";
  const std::string v3 = R"({"model_type": "deepseek_v3", )";
  EXPECT_EQ(error_of(R"({"model_type": "deepseek_v2"})"),
            "config: config.json num_experts_per_tok: missing; need experts a token is sent to");
  EXPECT_EQ(error_of(v2 + R"("scoring_func": "sigmoid"})"),
            "config: config.json scoring_func: changes the computation in a way that is not built; got sigmoid, need "
            "softmax");
  EXPECT_EQ(error_of(v2 + R"("topk_method": "noaux_tc"})"),
            "config: config.json topk_method: changes the computation in a way that is not built; got noaux_tc, need "
            "greedy or group_limited_greedy");
  EXPECT_EQ(
      error_of(v2 + R"("topk_method": "group_limited_greedy", "topk_group": 3})"),
      "config: config.json n_group: missing; need the number of groups, as topk_method=group_limited_greedy asks");
  EXPECT_EQ(error_of(v2 + R"("topk_method": "group_limited_greedy", "n_group": 8})"),
            "config: config.json topk_group: missing; need the groups a token may use, as "
            "topk_method=group_limited_greedy asks");
  EXPECT_EQ(error_of(v2 + R"("mlp_bias": true})"),
            "config: config.json mlp_bias: dense and shared layers with biases beside experts without are not built; "
            "got true, need false");
  EXPECT_EQ(error_of(v3 + R"("scoring_func": "softmax"})"),
            "config: config.json scoring_func: changes the computation in a way that is not built; got softmax, need "
            "sigmoid");
  EXPECT_EQ(error_of(v3 + R"("topk_method": "greedy"})"),
            "config: config.json topk_method: changes the computation in a way that is not built; got greedy, need "
            "noaux_tc");
  EXPECT_EQ(error_of(v3 + R"("moe_layer_freq": 2})"),
            "config: config.json moe_layer_freq: changes the computation in a way that is not built; got 2, need 1");
  EXPECT_NE(error_of(v3 + R"("quantization_config": {"quant_method": "fp8"}})").find("no decoder for these weights"),
            std::string::npos);
}

TEST(HfConfig, NamesWhatItLeavesOutOfDeepseek) {
  ::testing::internal::CaptureStderr();
  read(testing::kDeepseekV3);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("num_nextn_predict_layers=1 not used; the run's mtp_num_layers decides"), std::string::npos)
      << log;
  EXPECT_NE(log.find("torch_dtype not used"), std::string::npos) << log;
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2) << log;
  ::testing::internal::CaptureStderr();
  read(testing::kDeepseekV2Lite);
  const std::string v2_log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(v2_log.find("torch_dtype, aux_loss_alpha, seq_aux not used"), std::string::npos) << v2_log;
  EXPECT_EQ(std::count(v2_log.begin(), v2_log.end(), '\n'), 1) << v2_log;
}

TEST(HfConfig, ReadsTheExpertsOfTheGoldens) {
  struct Row {
    std::string family, num_experts, chosen, width, dense_width, score, norm;
  };
  // Written by transformers; mixtral has no norm_topk_prob.
  for (const Row& row :
       {Row{"mixtral", "8", "2", "20", "20", "", ""}, Row{"qwen3_moe", "8", "2", "16", "56", "softmax", "true"},
        Row{"olmoe", "8", "2", "16", "16", "softmax", "false"},
        Row{"flex_olmo", "7", "3", "16", "16", "softmax", "false"}}) {
    Texts texts = read_golden(row.family);
    EXPECT_EQ(texts["decoder_block"], row.family);
    EXPECT_EQ(texts["num_experts"], row.num_experts) << row.family;
    EXPECT_EQ(texts["num_experts_per_tok"], row.chosen) << row.family;
    EXPECT_EQ(texts["base_moe_mlp_dim"], row.width) << row.family;
    EXPECT_EQ(texts["base_mlp_dim"], row.dense_width) << row.family;
    EXPECT_EQ(texts["routed_score_func"], row.score) << row.family;
    EXPECT_EQ(texts["norm_topk_prob"], row.norm) << row.family;
    EXPECT_EQ(texts["attention_type"], row.family.find("olmo") == 0 || row.family == "flex_olmo" ? "" : "global");
  }
}

TEST(HfConfig, TakesBothSpellingsOfTheExperts) {
  for (const std::string type : {"mixtral", "qwen3_moe", "olmoe", "flex_olmo", "gpt_oss"}) {
    EXPECT_EQ(read(small(type, R"("num_experts": 6)"))["num_experts"], "6") << type;
    EXPECT_EQ(read(small(type, R"("num_local_experts": 6)"))["num_experts"], "6") << type;
  }
  EXPECT_EQ(read(small("gpt_oss", R"("experts_per_token": 3)"))["num_experts_per_tok"], "3");
  EXPECT_EQ(read(small("gpt_oss", R"("experts_per_token": 3, "num_experts_per_tok": 2)"))["num_experts_per_tok"], "2");
}

// families 3.3 of the class defaults of transformers.
TEST(HfConfig, KnowsTheClassDefaultsOfExperts) {
  struct Row {
    std::string type, num_experts, chosen, norm, theta;
  };
  for (const Row& row : {Row{"mixtral", "8", "2", "", "1000000"}, Row{"qwen3_moe", "128", "8", "false", "10000"},
                         Row{"olmoe", "64", "8", "false", "10000"}, Row{"flex_olmo", "7", "5", "false", "500000"},
                         Row{"gpt_oss", "128", "4", "", "150000"}}) {
    Texts texts = read(small(row.type, ""));
    EXPECT_EQ(texts["num_experts"], row.num_experts) << row.type;
    EXPECT_EQ(texts["num_experts_per_tok"], row.chosen) << row.type;
    EXPECT_EQ(texts["norm_topk_prob"], row.norm) << row.type;
    EXPECT_EQ(texts["rope_max_timescale"], row.theta) << row.type;
  }
  EXPECT_EQ(read(small("qwen3_moe", ""))["base_moe_mlp_dim"], "768");
  EXPECT_EQ(read(small("qwen3_moe", ""))["head_dim"], "8");
}

TEST(HfConfig, GptOssWithoutRotaryFieldsIsYarn) {
  Texts texts = read(small("gpt_oss", ""));
  EXPECT_EQ(texts["rope_type"], "yarn");
  EXPECT_EQ(texts["rope_factor"], "32");
  EXPECT_EQ(texts["original_max_position_embeddings"], "4096");
  EXPECT_EQ(texts["rope_truncate"], "false");
  EXPECT_EQ(texts["rope_attention_factor"], "1.34657359");  // 0.1 ln 32 + 1
  EXPECT_EQ(texts["head_dim"], "64");
  EXPECT_EQ(texts["sliding_window_size"], "128");
  EXPECT_EQ(texts["attention_bias"], "true");
  EXPECT_EQ(texts["mlp_activations_limit"], "7");
  EXPECT_EQ(texts["mlp_activations_alpha"], "1.702");
  EXPECT_EQ(texts.count("layer_types"), 0);
  // Fields that say otherwise win.
  EXPECT_EQ(read(small("gpt_oss", R"("rope_parameters": {"rope_type": "default"})"))["rope_type"], "default");
  EXPECT_EQ(read(small("gpt_oss", R"("rope_theta": 5e5)"))["rope_max_timescale"], "500000");
}

TEST(HfConfig, ReadsWhichLayersHaveExperts) {
  EXPECT_EQ(read(small("qwen3_moe", ""))["interleave_moe_layer_step"], "1");
  EXPECT_EQ(read(small("qwen3_moe", R"("decoder_sparse_step": 2)"))["interleave_moe_layer_step"], "2");
  EXPECT_EQ(read(small("qwen3_moe", R"("mlp_only_layers": [])"))["first_num_dense_layers"], "0");
  EXPECT_EQ(read(small("qwen3_moe", R"("mlp_only_layers": [1, 0])"))["first_num_dense_layers"], "2");
  EXPECT_EQ(error_of(small("qwen3_moe", R"("mlp_only_layers": [0, 2])")),
            "config: config.json mlp_only_layers: layers without experts are the first ones; got [0,2], need [0, 1 "
            "...] or []");
  EXPECT_EQ(error_of(small("qwen3_moe", R"("mlp_only_layers": [3])")),
            "config: config.json mlp_only_layers: layers without experts are the first ones; got [3], need [0, 1 ...] "
            "or []");
  EXPECT_EQ(error_of(small("qwen3_moe", R"("mlp_only_layers": 1)")),
            "config: config.json mlp_only_layers: wrong type; got 1, need a list");
}

TEST(HfConfig, WindowsOfTheFamiliesWithExperts) {
  EXPECT_EQ(read(small("mixtral", ""))["attention_type"], "global");
  EXPECT_EQ(read(small("mixtral", R"("sliding_window": 8)"))["sliding_window_size"], "8");
  EXPECT_EQ(read(small("qwen3_moe", R"("sliding_window": 8)"))["attention_type"], "global");
  Texts texts = read(small("qwen3_moe", R"("sliding_window": 8, "use_sliding_window": true)"));
  EXPECT_EQ(texts["attention_type"], "local_sliding");
  EXPECT_EQ(texts["sliding_window_size"], "8");
  EXPECT_EQ(read(small("qwen3_moe", R"("use_sliding_window": true)"))["sliding_window_size"], "4096");
  EXPECT_EQ(error_of(small("gpt_oss", R"("sliding_window": null)")),
            "config: config.json sliding_window: sliding layers need a window (every other layer slides); got none, "
            "need 1 or more");
}

TEST(HfConfig, RefusesExpertsThatKeysCannotSay) {
  EXPECT_EQ(error_of(small("mixtral", R"("num_local_experts": 1)")),
            "config: config.json num_local_experts: not a number of routed experts; got 1, need 2 or more");
  EXPECT_EQ(error_of(small("olmoe", R"("num_experts": 0)")),
            "config: config.json num_experts: not a number of routed experts; got 0, need 2 or more");
  EXPECT_EQ(error_of(small("gpt_oss", R"("swiglu_limit": 0)")),
            "config: config.json swiglu_limit: experts need it; got 0, need more than 0");
  EXPECT_EQ(error_of(small("mixtral", R"("router_jitter_noise": 0.1)")),
            "config: config.json router_jitter_noise: changes the computation in a way that is not built; got 0.1, "
            "need 0");
  EXPECT_EQ(error_of(small("olmoe", R"("clip_qkv": 8.0)")),
            "config: config.json clip_qkv: changes the computation in a way that is not built; got 8.0, need null");
  EXPECT_EQ(error_of(small("gpt_oss", R"("quantization_config": {"quant_method": "mxfp4"})")), "no error");
  EXPECT_NE(error_of(small("gpt_oss", R"("quantization_config": {"quant_method": "fp8"})"))
                .find("quantization_config: no decoder for these weights"),
            std::string::npos);
}

TEST(HfAlias, NamesOnlyKeysThatExist) {
  for (const HfFamily& family : hf_families()) {
    for (const HfField& field : family.fields) EXPECT_NE(find_key(field.key), nullptr) << field.key;
    for (const auto& [key, value] : family.implied) EXPECT_NE(find_key(key), nullptr) << key;
  }
}

TEST(HfAlias, IsTheTableOfTheDocumentation) {
  std::ifstream file(std::string(BALLAST_SOURCE_DIR) + "/docs/hf_config.md");
  std::ostringstream page;
  page << file.rdbuf();
  EXPECT_NE(page.str().find(hf_alias_markdown()), std::string::npos)
      << "docs/hf_config.md does not hold the table as it is now:\n\n"
      << hf_alias_markdown();
}

}  // namespace
}  // namespace ballast
