// SPDX-License-Identifier: Apache-2.0
#include "config/key_docs.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "config/key_table.h"
#include "config/resolve.h"
#include "config/yaml_file.h"
#include "files.h"

namespace ballast {
namespace {

const std::string kSource = BALLAST_SOURCE_DIR;

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(KeyDocs, AreTheFileInDocs) {
  // If this fails: build/ballast keys --markdown > docs/keys.md
  EXPECT_TRUE(content(kSource + "/docs/keys.md") == keys_markdown());
}

TEST(BaseYml, IsTheFileInConfigs) {
  // If this fails: build/ballast keys --base_yml > configs/base.yml
  EXPECT_TRUE(content(kSource + "/configs/base.yml") == base_yml());
}

TEST(BaseYml, HoldsEveryKeyAtItsDefault) {
  const Layer layer = read_config_file(kSource + "/configs/base.yml", "");
  size_t num_keys = 0;
  for (const KeyInfo& key : key_table()) {
    if (key.rule.effect == Effect::kComputed || key.name == "base_config") continue;
    ++num_keys;
    ASSERT_TRUE(layer.contains(key.name)) << key.name;
    EXPECT_EQ(key.read(layer.at(std::string(key.name)).value), key.default_value()) << key.name;
  }
  EXPECT_EQ(layer.size(), num_keys);
}

TEST(ShippedFiles, Resolve) {
  ConfigOptions options;
  options.configs_folder = kSource + "/configs";
  options.environment.emplace();
  options.needs_data = false;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(resolve_config({}, options).steps, 150001);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  for (const auto& file : std::filesystem::directory_iterator(kSource + "/configs/models")) {
    const std::string name = file.path().stem();
    EXPECT_NO_THROW(resolve_config({"model_name=" + name}, options)) << name;
  }
}

TEST(ShippedFiles, OfMethodsNameTheirKeys) {
  const Layer layer = read_config_chain(kSource + "/configs/post_train/dpo.yml", kSource + "/configs");
  EXPECT_EQ(layer.at("use_dpo").value.text, "true");
  EXPECT_EQ(layer.at("dataset_type").value.text, "synthetic");
  EXPECT_EQ(layer.at("model_name").value.text, "default");
  for (const auto& [key, setting] : layer) EXPECT_NE(find_key(key), nullptr) << key;
}

TEST(ListKeys, FindsNamesAndMeanings) {
  const std::string page = list_keys("Learning_rate_final");
  EXPECT_NE(page.find("learning_rate_final_fraction  (number, default 0.1, soft, works)\n    last learning rate"),
            std::string::npos);
  EXPECT_NE(list_keys("embedding table").find("vocab_size"), std::string::npos);
  EXPECT_NE(list_keys("o_lora_rank").find("hard, later"), std::string::npos);
  EXPECT_NE(list_keys("").find("emb_dim  (integer, soft, computed)"), std::string::npos);
}

TEST(ListKeys, SuggestsNamesWhereNothingFits) {
  EXPECT_EQ(config_error([] { list_keys("learnin_rate"); }),
            "config: keys: no key matches learnin_rate; did you mean learning_rate?");
}

}  // namespace
}  // namespace ballast
