// SPDX-License-Identifier: Apache-2.0
#include "config/key_table.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "config/checks.h"
#include "config/resolve.h"
#include "files.h"

namespace ballast {
namespace {

using Words = std::vector<std::string>;

// Names and values of MaxText's base.yml, without logical_axis_rules.
std::vector<std::pair<std::string, std::string>> maxtext_defaults() {
  std::ifstream file(std::string(BALLAST_SOURCE_DIR) + "/tests/golden/config/maxtext_defaults.tsv");
  std::vector<std::pair<std::string, std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    const size_t tab = line.find('\t');
    rows.emplace_back(line.substr(0, tab), line.substr(tab + 1));
  }
  return rows;
}

TEST(KeyTable, ReadsEveryDefault) {
  for (const KeyInfo& key : key_table()) {
    const Setting setting{parse_scalar(key.default_text), "default"};
    ASSERT_TRUE(key.read(setting.value).has_value()) << key.name;
    if (key.rule.effect != Effect::kComputed) {
      EXPECT_EQ(checked_value(key, setting), key.default_value()) << key.name;
    }
  }
}

TEST(KeyTable, HasEachNameOnce) {
  std::set<std::string_view> names;
  for (const KeyInfo& key : key_table()) EXPECT_TRUE(names.insert(key.name).second) << key.name;
  for (const auto& [other, key] : key_aliases()) EXPECT_TRUE(names.insert(other).second) << other;
}

TEST(KeyTable, ExplainsEveryKey) {
  for (const KeyInfo& key : key_table()) {
    EXPECT_FALSE(key.meaning.empty() && key.rule.note.empty()) << key.name;
    EXPECT_FALSE(key.group.empty()) << key.name;
  }
}

TEST(KeyTable, KnowsEveryKeyOfMaxTextWithItsDefault) {
  // Ours differ on purpose: a machine without TPUs, and a tri-state whose unset value follows the score function.
  const std::set<std::string> own_defaults = {"hardware", "norm_topk_prob"};
  const auto rows = maxtext_defaults();
  ASSERT_EQ(rows.size(), 695u);
  for (const auto& [name, text] : rows) {
    const KeyInfo* key = find_key(name);
    ASSERT_NE(key, nullptr) << name;
    const std::optional<TypedValue> value = key->read(parse_scalar(text));
    ASSERT_TRUE(value.has_value()) << name << "=" << text;
    if (own_defaults.contains(name)) continue;
    EXPECT_EQ(to_text(*value), to_text(key->default_value())) << name;
    EXPECT_EQ(*value, key->default_value()) << name;
  }
}

TEST(KeyTable, AcceptsMaxTextsOwnBaseFile) {
  TempFolder folder;
  std::string text;
  for (const auto& [name, value] : maxtext_defaults()) text += name + ": " + value + "  # comment\n";
  text += "logical_axis_rules: [\n  ['activation_batch', ['data', 'fsdp']],\n  ['mlp', []],\n]\n";
  const std::string path = folder.write("base.yml", text);
  ConfigOptions options;
  options.configs_folder = std::string(BALLAST_SOURCE_DIR) + "/configs";
  options.environment.emplace();
  const Config config = resolve_config({path, "dataset_type=synthetic", "hardware=cpu"}, options);
  EXPECT_EQ(config.steps, 150001);
  EXPECT_EQ(config.learning_rate, 3e-5);
  EXPECT_EQ(config.train_data_columns, Words{"text"});
  EXPECT_EQ(config.mesh_axes.size(), 12u);
}

TEST(KeyTable, FindsOtherSpellings) {
  EXPECT_EQ(find_key("dpo_beta"), find_key("dpo.dpo_beta"));
  EXPECT_EQ(find_key("no_such_key"), nullptr);
  EXPECT_TRUE(is_key_group("dpo"));
  EXPECT_FALSE(is_key_group("steps"));
}

TEST(NearKeys, SuggestsWhatWasMeant) {
  EXPECT_EQ(near_keys("learnin_rate"), Words{"learning_rate"});
  EXPECT_EQ(near_keys("lerning_rate"), Words{"learning_rate"});
  EXPECT_EQ(near_keys("stesp"), Words{"steps"});
  EXPECT_EQ(near_keys("per_device_batchsize").front(), "per_device_batch_size");
  EXPECT_EQ(near_keys("max_target_len"), Words{"max_target_length"});
  EXPECT_EQ(near_keys("zzzzzzzz"), Words{});
  EXPECT_EQ(near_keys(std::string(100000, 'a')), Words{});
}

TEST(NearKeys, NamesAtMostThree) {
  EXPECT_LE(near_keys("ici_data_paralelism").size(), 3u);
}

TEST(Config, HoldsEveryDefaultFromTheStart) {
  const Config config;
  EXPECT_EQ(config.adam_b2, 0.95);
  EXPECT_EQ(config.adam_eps, 1e-8);
  EXPECT_EQ(config.mlp_activations, (Words{"silu", "linear"}));
  EXPECT_EQ(config.max_num_checkpoints_to_keep, std::nullopt);
  EXPECT_EQ(config.norm_topk_prob, std::nullopt);
  EXPECT_EQ(config.dpo_beta, 0.1);
  EXPECT_EQ(config.origin("steps"), "default");
  EXPECT_FALSE(config.is_given("steps"));
}

TEST(Config, RefusesOriginsOfKeysThatDoNotExist) {
  EXPECT_THROW(Config().origin("no_such_key"), InternalError);
}

}  // namespace
}  // namespace ballast
