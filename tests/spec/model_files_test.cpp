// SPDX-License-Identifier: Apache-2.0
// The shipped model files and the configurations that Hugging Face folders hold, as decoders.
#include <cmath>
#include <filesystem>
#include <set>

#include "spec/spec_case.h"
#include "support/hf_folder.h"

namespace ballast {
namespace {

using testing::attention_of;
using testing::experts_of;
using testing::ffn_of;
using testing::HfFolder;
using testing::windows_of;

std::string source(const std::string& path) {
  return std::string(BALLAST_SOURCE_DIR) + "/" + path;
}

DecoderSpec shipped(const std::string& model, const std::vector<std::string>& more = {}) {
  ConfigOptions options;
  options.configs_folder = source("configs");
  options.environment.emplace();
  options.needs_data = false;
  std::vector<std::string> words = {source("configs/base.yml"), "model_name=" + model};
  words.insert(words.end(), more.begin(), more.end());
  return make_decoder_spec(resolve_config(words, options));
}

DecoderSpec golden(const std::string& family) {
  return testing::spec_of({"hf_model_path=" + source("tests/golden/" + family)});
}

DecoderSpec from_json(const std::string& config_json) {
  const HfFolder folder(config_json);
  return testing::spec_of({"hf_model_path=" + folder.path()});
}

struct Published {
  std::string model;
  int64_t num_parameters;
  int64_t num_active = 0;  ///< parameters that one token meets; 0: all
  int64_t left_out = 0;    ///< parameters that the published active number does not count
};

const std::vector<Published>& published() {
  static const std::vector<Published> models = {
      {"llama2-7b", 6738415616},
      {"llama2-13b", 13015864320},
      {"llama2-70b", 68976648192},
      {"llama3-8b", 8030261248},
      {"llama3-70b", 70553706496},
      {"llama3.1-8b", 8030261248},
      {"llama3.1-70b", 70553706496},
      {"llama3.1-405b", 405853388800},
      {"llama3.2-1b", 1235814400},
      {"llama3.2-3b", 3212749824},
      {"llama3.3-70b", 70553706496},
      {"mistral-7b", 7241732096},
      {"qwen3-0.6b", 596049920},
      {"qwen3-1.7b", 1720574976},
      {"qwen3-4b", 4022468096},
      {"qwen3-8b", 8190735360},
      {"qwen3-14b", 14768307200},
      {"qwen3-32b", 32762123264},
      {"olmo3-7b", 7298011136},
      {"olmo3-7b-pt", 7298011136},
      {"olmo3-32b", 32233522176},
      {"mixtral-8x7b", 46702792704, 12879925248, 0},
      {"mixtral-8x22b", 140630071296, 39161468928, 0},
      {"qwen3-30b-a3b", 30532122624, 3353032704, 0},
      {"qwen3-235b-a22b", 235093634560, 22190763520, 0},
      {"qwen3-480b-a35b", 480154875392, 35474765312, 0},
      {"olmoe-1b-7b", 6919161856, 1282017280, 0},
      {"flex-olmo-7x7b", 33270665216, 24613621760, 0},
      {"gpt-oss-20b", 20914757184, 3608307264, 201088 * 2880},
      {"gpt-oss-120b", 116829156672, 5132849472, 201088 * 2880},
      {"deepseek2-16b", 15706484224, 2661150208, 0},
      {"deepseek2-236b", 235741434880, 21375800320, 0},
      // 671,026,419,200 with the biases of the choice, which are no parameters.
      {"deepseek3-671b", 671026419200 - 58 * 256, 37552282624, 0},
      {"deepseek3-tiny", 33705520, 28003888, 0},
      {"deepseek3-test", 15851412992, 4539375104, 0},
      {"kimi-k2-1t", 1026408232448 - 60 * 384, 32861477888, 0},
  };
  return models;
}

TEST(ModelFiles, HaveThePublishedNumberOfParameters) {
  for (const Published& entry : published()) {
    EXPECT_EQ(count_parameters(shipped(entry.model)), entry.num_parameters) << entry.model;
  }
}

/// The decoder with just the experts that one token is sent to; its router keeps all its rows.
int64_t count_active(DecoderSpec spec) {
  int64_t router_rows = 0;
  for (LayerSpec& layer : spec.layers) {
    auto* ffn = std::get_if<MoeFfnSpec>(&layer.ffn);
    if (ffn == nullptr) continue;
    const int64_t num_idle = ffn->router.num_experts - ffn->router.num_experts_per_tok;
    router_rows += num_idle * (spec.emb_dim + (ffn->router.has_bias ? 1 : 0));
    ffn->router.num_experts = ffn->router.num_experts_per_tok;
  }
  return count_parameters(spec) + router_rows;
}

// The makers round: 12.9 and 39.1 billion, 3.3, 22, 35, 1.3; gpt-oss 3.61 and 5.13 without the embedding.
TEST(ModelFiles, HaveThePublishedNumberOfActiveParameters) {
  for (const Published& entry : published()) {
    const int64_t num_active = entry.num_active == 0 ? entry.num_parameters : entry.num_active;
    EXPECT_EQ(count_active(shipped(entry.model)) - entry.left_out, num_active) << entry.model;
  }
}

TEST(ModelFiles, AreAllPublishedModels) {
  std::set<std::string> listed;
  for (const Published& entry : published()) listed.insert(entry.model + ".yml");
  for (const auto& file : std::filesystem::directory_iterator(source("configs/models"))) {
    EXPECT_TRUE(listed.contains(file.path().filename())) << file.path() << " has no published count here";
  }
}

/// Everything two descriptions of one model must agree on.
void expect_same_model(const DecoderSpec& a, const DecoderSpec& b) {
  EXPECT_EQ(a.vocab_size, b.vocab_size);
  EXPECT_EQ(a.emb_dim, b.emb_dim);
  EXPECT_EQ(a.is_head_tied, b.is_head_tied);
  EXPECT_EQ(a.logits_scale, b.logits_scale);
  EXPECT_EQ(a.final_norm.epsilon, b.final_norm.epsilon);
  EXPECT_EQ(a.ropes.size(), b.ropes.size());
  ASSERT_EQ(a.layers.size(), b.layers.size());
  for (size_t i = 0; i < a.layers.size(); ++i) {
    const AttentionSpec& x = attention_of(a, i);
    const AttentionSpec& y = attention_of(b, i);
    EXPECT_EQ(x.num_query_heads, y.num_query_heads);
    EXPECT_EQ(x.num_kv_heads, y.num_kv_heads);
    EXPECT_EQ(x.head_dim, y.head_dim);
    EXPECT_EQ(x.sliding_window, y.sliding_window);
    EXPECT_EQ(x.qk_norm, y.qk_norm);
    EXPECT_EQ(a.ropes.at(static_cast<size_t>(x.rope)), b.ropes.at(static_cast<size_t>(y.rope))) << "layer " << i;
    EXPECT_EQ(a.layers[i].ffn, b.layers[i].ffn) << "layer " << i;
    EXPECT_EQ(a.layers[i].pre_mixer_norm.name, b.layers[i].pre_mixer_norm.name);
    EXPECT_EQ(a.layers[i].post_ffn_norm.name, b.layers[i].post_ffn_norm.name);
  }
  EXPECT_EQ(count_parameters(a), count_parameters(b));
}

TEST(ModelFiles, AgreeWithThePublicConfigurations) {
  expect_same_model(shipped("llama2-7b"), from_json(testing::kLlama2_7b));
  expect_same_model(shipped("llama3.1-8b"), from_json(testing::kLlama31_8b));
  expect_same_model(shipped("qwen3-0.6b"), from_json(testing::kQwen3_0_6b));
  expect_same_model(shipped("olmo3-7b"), from_json(testing::kOlmo3_7b));
  expect_same_model(shipped("mixtral-8x7b"), from_json(testing::kMixtral8x7b));
  expect_same_model(shipped("qwen3-30b-a3b"), from_json(testing::kQwen3_30bA3b));
  expect_same_model(shipped("olmoe-1b-7b"), from_json(testing::kOlmoe1b7b));
  // The class's defaults are the released model's sizes.
  expect_same_model(shipped("flex-olmo-7x7b"),
                    from_json(R"({"model_type": "flex_olmo", "hidden_size": 4096, "num_hidden_layers": 32,
                                  "num_attention_heads": 32})"));
  expect_same_model(shipped("gpt-oss-20b"), from_json(testing::kGptOss20b));
}

// DeepSeek's and Kimi's files as their configurations have them, groups of the choice aside, which MaxText leaves out.
TEST(ModelFiles, OfLatentAttentionAreThePublicConfigurations) {
  EXPECT_EQ(shipped("deepseek2-16b"), from_json(testing::kDeepseekV2Lite));
  EXPECT_EQ(shipped("deepseek3-671b", {"n_routing_groups=8", "topk_routing_group=4"}), from_json(testing::kDeepseekV3));
  EXPECT_EQ(shipped("kimi-k2-1t"), from_json(testing::kKimiK2));
}

// 1/sqrt(192) = .072169, times 1.368888^2 with mscale 1 and 1.260804^2 with 0.707.
TEST(ModelFiles, OfLatentAttentionScaleTheSoftmax) {
  const auto scale_of = [](const DecoderSpec& spec) { return std::get<MlaSpec>(spec.layers.back().mixer).scale; };
  EXPECT_NEAR(scale_of(shipped("deepseek3-671b")), .135234, 5e-7);
  EXPECT_NEAR(scale_of(shipped("deepseek2-16b")), .114721, 5e-7);
  EXPECT_NEAR(scale_of(shipped("deepseek2-16b", {"override_model_config=true", "rope_type=default"})), .072169, 5e-7);
  EXPECT_EQ(shipped("deepseek3-671b").ropes.at(0).attention_factor, 1);
}

TEST(ModelFiles, DescribeOlmo3BeforeAndAfterItsLongContextStage) {
  const DecoderSpec longer = shipped("olmo3-7b");
  ASSERT_EQ(longer.ropes.size(), 2);
  const RopeSpec& sliding = longer.ropes.at(static_cast<size_t>(attention_of(longer, 0).rope));
  const RopeSpec& full = longer.ropes.at(static_cast<size_t>(attention_of(longer, 3).rope));
  EXPECT_EQ(sliding.scaling, RopeScaling::kDefault);
  EXPECT_EQ(full.scaling, RopeScaling::kYarn);
  EXPECT_NEAR(full.attention_factor, 1.2079441541679836, 1e-15);
  const DecoderSpec pretrained = shipped("olmo3-7b-pt");
  ASSERT_EQ(pretrained.ropes.size(), 1);
  EXPECT_EQ(pretrained.ropes[0].scaling, RopeScaling::kDefault);
  EXPECT_EQ(windows_of(pretrained)[30], 4096);
  EXPECT_EQ(windows_of(pretrained)[31], 0);
}

TEST(HfSpec, DescribesGoldenLlama) {
  const DecoderSpec spec = golden("llama");
  EXPECT_EQ(spec.vocab_size, 128);
  EXPECT_EQ(spec.emb_dim, 32);
  EXPECT_FALSE(spec.is_head_tied);
  ASSERT_EQ(spec.layers.size(), 3);
  EXPECT_EQ(spec.layers[0].pre_mixer_norm.name, "input_layernorm");
  EXPECT_EQ(spec.layers[0].pre_ffn_norm.name, "post_attention_layernorm");
  EXPECT_EQ(spec.layers[0].pre_ffn_norm.epsilon, 1e-5);
  EXPECT_EQ(spec.layers[0].pre_ffn_norm.form, NormForm::kCastThenScale);
  const AttentionSpec& attention = attention_of(spec, 2);
  EXPECT_EQ(attention.num_query_heads, 4);
  EXPECT_EQ(attention.num_kv_heads, 2);
  EXPECT_EQ(attention.head_dim, 16);
  EXPECT_EQ(attention.scale, 0.25);
  EXPECT_EQ(attention.qk_norm, QkNormKind::kNone);
  EXPECT_EQ(ffn_of(spec, 0).mlp_dim, 56);
  RopeSpec rope;
  rope.scaling = RopeScaling::kLlama3;
  rope.theta = 500000;
  rope.rotary_dim = 16;
  rope.factor = 8;
  rope.low_freq_factor = 1;
  rope.high_freq_factor = 4;
  rope.original_max_position_embeddings = 32;
  EXPECT_EQ(spec.ropes, std::vector<RopeSpec>{rope});
}

TEST(HfSpec, DescribesGoldenLlama2) {
  const DecoderSpec spec = golden("llama2");
  ASSERT_EQ(spec.layers.size(), 3);
  EXPECT_EQ(attention_of(spec, 0).num_kv_heads, 4);
  EXPECT_EQ(attention_of(spec, 0).head_dim, 8);
  RopeSpec rope;
  rope.rotary_dim = 8;
  EXPECT_EQ(spec.ropes, std::vector<RopeSpec>{rope});
}

TEST(HfSpec, DescribesGoldenQwen3) {
  const DecoderSpec spec = golden("qwen3");
  EXPECT_TRUE(spec.is_head_tied);
  EXPECT_EQ(spec.logits_scale, 1.0);
  EXPECT_EQ(spec.final_norm.epsilon, 1e-6);
  ASSERT_EQ(spec.layers.size(), 3);
  const AttentionSpec& attention = attention_of(spec, 0);
  EXPECT_EQ(attention.qk_norm, QkNormKind::kPerHead);
  EXPECT_EQ(attention.q_norm.epsilon, 1e-6);
  EXPECT_EQ(attention.head_dim, 16);
  EXPECT_EQ(attention.sliding_window, 0);
  RopeSpec rope;
  rope.theta = 1e6;
  rope.rotary_dim = 16;
  EXPECT_EQ(spec.ropes, std::vector<RopeSpec>{rope});
}

TEST(HfSpec, DescribesGoldenOlmo3) {
  const DecoderSpec spec = golden("olmo3");
  EXPECT_FALSE(spec.is_head_tied);
  EXPECT_EQ(windows_of(spec), (std::vector<int64_t>{16, 16, 16, 0}));
  EXPECT_EQ(spec.layers[0].post_mixer_norm.name, "post_attention_layernorm");
  EXPECT_EQ(spec.layers[0].post_ffn_norm.form, NormForm::kScaleThenCast);
  EXPECT_EQ(attention_of(spec, 0).qk_norm, QkNormKind::kWholeProjection);
  EXPECT_EQ(attention_of(spec, 0).num_kv_heads, 2);
  EXPECT_EQ(attention_of(spec, 0).head_dim, 8);
  EXPECT_EQ(ffn_of(spec, 3).mlp_dim, 48);
  RopeSpec plain;
  plain.theta = 500000;
  plain.rotary_dim = 8;
  plain.multiplies_in_fp32 = true;
  RopeSpec yarn = plain;
  yarn.scaling = RopeScaling::kYarn;
  yarn.factor = 8;
  yarn.original_max_position_embeddings = 32;
  yarn.attention_factor = 1.2079441541679836;
  EXPECT_EQ(spec.ropes, (std::vector<RopeSpec>{plain, yarn}));
  EXPECT_EQ(attention_of(spec, 2).rope, 0);
  EXPECT_EQ(attention_of(spec, 3).rope, 1);
}

TEST(HfSpec, DescribesTheGoldensWithExperts) {
  const DecoderSpec mixtral = golden("mixtral");
  ASSERT_EQ(mixtral.layers.size(), 3);
  const MoeFfnSpec& ffn = experts_of(mixtral, 0);
  EXPECT_EQ(ffn.mlp_dim, 20);
  EXPECT_EQ(ffn.router.num_experts, 8);
  EXPECT_EQ(ffn.router.num_experts_per_tok, 2);
  EXPECT_EQ(ffn.router.score, RouterScore::kLogits);
  EXPECT_EQ(ffn.names.up, "w3");
  EXPECT_EQ(attention_of(mixtral, 0).head_dim, 8);
  const DecoderSpec qwen = golden("qwen3_moe");
  EXPECT_EQ(experts_of(qwen, 2).mlp_dim, 16);
  EXPECT_EQ(experts_of(qwen, 2).router.score, RouterScore::kSoftmax);
  EXPECT_TRUE(experts_of(qwen, 2).router.normalizes);
  EXPECT_EQ(attention_of(qwen, 0).qk_norm, QkNormKind::kPerHead);
  const DecoderSpec flex = golden("flex_olmo");
  EXPECT_EQ(experts_of(flex, 0).router.num_experts, 7);
  EXPECT_EQ(experts_of(flex, 0).router.num_experts_per_tok, 3);
  EXPECT_FALSE(experts_of(flex, 0).router.normalizes);
  EXPECT_EQ(flex.layers[0].post_ffn_norm.epsilon, 1e-6);
  const DecoderSpec olmoe = golden("olmoe");
  EXPECT_FALSE(experts_of(olmoe, 0).router.normalizes);
  EXPECT_EQ(attention_of(olmoe, 0).qk_norm, QkNormKind::kWholeProjection);
  const DecoderSpec gpt = golden("gpt_oss");
  EXPECT_EQ(windows_of(gpt), (std::vector<int64_t>{16, 0, 16, 0}));
  EXPECT_EQ(experts_of(gpt, 1).activation_limit, 1.5);
  EXPECT_EQ(experts_of(gpt, 1).activation_alpha, 1.702);
  EXPECT_TRUE(experts_of(gpt, 1).has_bias);
  EXPECT_TRUE(experts_of(gpt, 1).router.has_bias);
  EXPECT_TRUE(attention_of(gpt, 0).has_sinks);
  EXPECT_TRUE(attention_of(gpt, 0).has_output_bias);
  ASSERT_EQ(gpt.ropes.size(), 1);
  EXPECT_FALSE(gpt.ropes[0].truncate);
  EXPECT_NEAR(gpt.ropes[0].attention_factor, 1.3465735902799727, 1e-15);
}

// Elements of all tensors in the files that transformers wrote.
TEST(HfSpec, DescribesTheGoldensOfDeepseek) {
  const DecoderSpec v3 = golden("deepseek_v3");
  ASSERT_EQ(v3.layers.size(), 4);
  MlaSpec attention;
  attention.num_heads = 4;
  attention.q_rank = 20;
  attention.kv_rank = 16;
  attention.nope_dim = 12;
  attention.rope_dim = 8;
  attention.value_head_dim = 10;
  attention.scale = std::pow(0.1 * std::log(40.0) + 1, 2) / std::sqrt(20.0);
  attention.rope = 0;
  attention.q_norm.name = "q_a_layernorm";
  attention.kv_norm.name = "kv_a_layernorm";
  attention.q_norm.epsilon = attention.kv_norm.epsilon = 1e-6;
  EXPECT_EQ(std::get<MlaSpec>(v3.layers[3].mixer), attention);
  EXPECT_EQ(ffn_of(v3, 0).mlp_dim, 48);
  const MoeFfnSpec& experts = experts_of(v3, 1);
  EXPECT_EQ(experts.router.score, RouterScore::kSigmoid);
  EXPECT_TRUE(experts.router.has_selection_bias);
  EXPECT_EQ(experts.router.num_groups, 4);
  EXPECT_EQ(experts.router.group_score, GroupScore::kTwoBest);
  EXPECT_EQ(experts.router.scaling_factor, 2.5);
  EXPECT_EQ(experts.shared_dim, 12);
  ASSERT_EQ(v3.ropes.size(), 1);
  EXPECT_EQ(v3.ropes[0].rotary_dim, 8);
  EXPECT_TRUE(v3.ropes[0].is_interleaved);
  EXPECT_EQ(v3.ropes[0].attention_factor, 1);
  const DecoderSpec v2 = golden("deepseek_v2");
  const auto& plain = std::get<MlaSpec>(v2.layers[0].mixer);
  EXPECT_EQ(plain.q_rank, 0);
  EXPECT_FALSE(plain.q_norm.exists());
  EXPECT_TRUE(plain.has_bias);
  EXPECT_EQ(plain.kv_norm.epsilon, 1e-6) << "not that of the other norms";
  EXPECT_EQ(v2.layers[0].pre_mixer_norm.epsilon, 1e-5);
  EXPECT_NEAR(plain.scale, std::pow(0.0707 * std::log(8.0) + 1, 2) / 4, 1e-15);
  EXPECT_NEAR(v2.ropes.at(0).attention_factor, 1.053118360780668, 1e-15);
  const RouterSpec& router = experts_of(v2, 2).router;
  EXPECT_EQ(router.group_score, GroupScore::kBest);
  EXPECT_EQ(router.num_kept_groups, 2);
  EXPECT_FALSE(router.normalizes);
  EXPECT_FALSE(router.has_selection_bias);
  EXPECT_EQ(experts_of(v2, 2).shared_dim, 20);
}

TEST(HfSpec, CountsTheElementsOfTheGoldensOfDeepseek) {
  EXPECT_EQ(count_parameters(golden("deepseek_v3")) + 3 * 8, 67912) << "with the biases of the choice";
  EXPECT_EQ(count_parameters(golden("deepseek_v2")), 38706);
}

TEST(HfSpec, CountsTheElementsOfTheGoldensWithExperts) {
  EXPECT_EQ(count_parameters(golden("mixtral")), 64480);
  EXPECT_EQ(count_parameters(golden("qwen3_moe")), 64576);
  EXPECT_EQ(count_parameters(golden("olmoe")), 58528);
  EXPECT_EQ(count_parameters(golden("flex_olmo")), 53824);
  EXPECT_EQ(count_parameters(golden("gpt_oss")), 59840);
}

TEST(HfSpec, SlidesEveryLayerOfMistralV01) {
  const DecoderSpec spec = from_json(testing::kMistral7bV01);
  EXPECT_EQ(windows_of(spec), std::vector<int64_t>(32, 4096));
  EXPECT_EQ(count_parameters(spec), 7241732096);
}

TEST(HfSpec, FixesTheArchitectureOfTheRun) {
  EXPECT_THROW(config_from_pairs({"hf_model_path=" + source("tests/golden/llama"), "base_emb_dim=64"}), ConfigError);
  const Config config = config_from_pairs(
      {"hf_model_path=" + source("tests/golden/llama"), "base_num_decoder_layers=2", "override_model_config=true"});
  EXPECT_EQ(make_decoder_spec(config).layers.size(), 2);
}

}  // namespace
}  // namespace ballast
