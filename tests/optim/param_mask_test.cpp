// SPDX-License-Identifier: Apache-2.0
#include "optim/param_mask.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "errors/errors.h"

namespace ballast {
namespace {

const std::vector<std::string> kNames = {
    "model.embed_tokens.weight",
    "model.layers.3.input_layernorm.weight",
    "model.layers.3.self_attn.q_proj.weight",
    "model.layers.3.self_attn.q_proj.bias",
    "model.layers.3.mlp.down_proj.weight",
    "model.layers.11.mlp.down_proj.weight",
    "model.norm.weight",
    "lm_head.weight",
};

/// Indices of the names that do not decay under these patterns.
std::vector<int> undecayed(const std::vector<std::string>& patterns) {
  std::vector<int> indices;
  const auto members = mask_parameters(kNames, patterns, {});
  for (size_t i = 0; i < members.size(); ++i) {
    EXPECT_TRUE(members[i].trains);
    if (!members[i].decays) indices.push_back(static_cast<int>(i));
  }
  return indices;
}

std::vector<int> training(const std::vector<std::string>& patterns) {
  std::vector<int> indices;
  const auto members = mask_parameters(kNames, {}, patterns);
  for (size_t i = 0; i < members.size(); ++i) {
    EXPECT_TRUE(members[i].decays);
    if (members[i].trains) indices.push_back(static_cast<int>(i));
  }
  return indices;
}

TEST(ParamMask, WithoutPatternsEverythingTrainsAndDecays) {
  EXPECT_EQ(undecayed({}), std::vector<int>{});
  EXPECT_EQ(training({}), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(ParamMask, MaxTextsCommonMaskKeepsNormsBiasesAndEmbeddingsFromDecay) {
  EXPECT_EQ(undecayed({".*embedding.*", ".*norm.*", ".*bias"}), (std::vector<int>{0, 1, 3, 6}));
}

TEST(ParamMask, PatternMatchesAnywhereInTheDottedName) {
  EXPECT_EQ(training({R"(layers\.3\.)"}), (std::vector<int>{1, 2, 3, 4}));
}

TEST(ParamMask, PatternMatchesTheSlashForm) {
  EXPECT_EQ(training({"^model/layers/3/mlp"}), std::vector<int>{4});
}

TEST(ParamMask, PatternMatchesMaxTextsPathsApartAndScanned) {
  EXPECT_EQ(training({"params/params/decoder/layers_3/self_attention/query/kernel"}), std::vector<int>{2});
  EXPECT_EQ(training({"^params/decoder/layers/mlp/wo/kernel$"}), (std::vector<int>{4, 5}));
  EXPECT_EQ(training({"decoder/logits_dense"}), std::vector<int>{7});
  EXPECT_EQ(undecayed({"scale$"}), (std::vector<int>{1, 6}));
}

TEST(ParamMask, PythonSyntaxBeyondPlainExpressionsWorks) {
  EXPECT_EQ(training({"(?i)LM_HEAD"}), std::vector<int>{7});
  EXPECT_EQ(training({R"((?<!layers\.)3\.mlp|(?P<number>11)\.mlp)"}), std::vector<int>{5});
}

TEST(ParamMask, PathsOfAQueryProjectionAreComplete) {
  EXPECT_EQ(parameter_paths("model.layers.0.self_attn.q_norm.weight"),
            (std::vector<std::string>{
                "model.layers.0.self_attn.q_norm.weight",
                "model/layers/0/self_attn/q_norm/weight",
                "params/params/decoder/layers_0/self_attention/query_norm/scale",
                "params/decoder/layers_0/self_attention/query_norm/scale",
                "decoder/layers_0/self_attention/query_norm/scale",
                "params/params/decoder/layers/self_attention/query_norm/scale",
                "params/decoder/layers/self_attention/query_norm/scale",
                "decoder/layers/self_attention/query_norm/scale",
                "params/params/decoder/layers_0/attention/query_norm/scale",
                "params/decoder/layers_0/attention/query_norm/scale",
                "decoder/layers_0/attention/query_norm/scale",
                "params/params/decoder/layers/attention/query_norm/scale",
                "params/decoder/layers/attention/query_norm/scale",
                "decoder/layers/attention/query_norm/scale",
            }));
}

TEST(ParamMask, LatentAttentionHasMaxTextsNames) {
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"self_attn.q_a_proj", "self_attention/wq_a/kernel"},
      {"self_attn.q_a_layernorm", "self_attention/q_norm/scale"},
      {"self_attn.q_b_proj", "self_attention/wq_b/kernel"},
      {"self_attn.kv_a_proj_with_mqa", "self_attention/wkv_a/kernel"},
      {"self_attn.kv_a_layernorm", "self_attention/kv_norm/scale"},
      {"self_attn.kv_b_proj", "self_attention/wkv_b/kernel"},
      {"self_attn.o_proj", "self_attention/out/kernel"},
      {"mlp.shared_experts.up_proj", "DeepSeekMoeBlock_0/shared_experts/wi_1/kernel"}};
  for (const auto& [module, path] : expected) {
    const std::vector<std::string> paths = parameter_paths("model.layers.2." + module + ".weight");
    EXPECT_NE(std::find(paths.begin(), paths.end(), "decoder/layers_2/" + path), paths.end()) << path;
  }
}

TEST(ParamMask, NameUnknownToMaxTextHasTwoSpellings) {
  EXPECT_EQ(parameter_paths("model.layers.0.mixer.decay"),
            (std::vector<std::string>{"model.layers.0.mixer.decay", "model/layers/0/mixer/decay"}));
}

TEST(ParamMask, SinksBelongToTheAttentionItself) {
  const std::vector<std::string> paths = parameter_paths("model.layers.0.self_attn.sinks");
  for (const char* path : {"model/layers/0/self_attn/sinks", "params/params/decoder/layers_0/self_attention/sinks",
                           "decoder/layers/attention/sinks"}) {
    EXPECT_NE(std::find(paths.begin(), paths.end(), path), paths.end()) << path;
  }
}

TEST(ParamMask, PatternWithoutAMatchWarns) {
  testing::internal::CaptureStderr();
  mask_parameters(kNames, {"norm", "no_such_module"}, {});
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_NE(lines.find("warning: adamw_mask: 'no_such_module' matches no parameter"), std::string::npos) << lines;
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1) << lines;
}

TEST(ParamMask, InvalidExpressionNamesKeyAndPattern) {
  try {
    mask_parameters(kNames, {}, {"[abc"});
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    const std::string line = error.what();
    EXPECT_NE(line.find("trainable_parameters_mask"), std::string::npos) << line;
    EXPECT_NE(line.find("'[abc' is not a regular expression"), std::string::npos) << line;
  }
}

TEST(ParamMask, NothingLeftToTrainIsAConfigError) {
  EXPECT_THROW(mask_parameters(kNames, {}, {"indexer"}), ConfigError);
}

}  // namespace
}  // namespace ballast
