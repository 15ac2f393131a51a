// SPDX-License-Identifier: Apache-2.0
#include "config/yaml_file.h"

#include <gtest/gtest.h>

#include "files.h"

namespace ballast {
namespace {

class YamlFile : public ::testing::Test {
 protected:
  Layer read(const std::string& text) { return read_config_file(folder_.write("a.yml", text), ""); }
  std::string refusal(const std::string& text) {
    return config_error([&] { read_config_chain(folder_.write("a.yml", text), folder_.path() + "/configs"); });
  }
  std::string file() const { return folder_.path() + "/a.yml"; }

  TempFolder folder_;
};

TEST_F(YamlFile, KeepsTextAndLine) {
  const Layer layer = read("# head\nsteps: 10_000\n\nrun_name: '2026'\nadam_eps_root: 0.\n");
  EXPECT_EQ(layer.at("steps").value.text, "10_000");
  EXPECT_EQ(layer.at("steps").origin, file() + ":2");
  EXPECT_EQ(layer.at("run_name").value.text, "2026");
  EXPECT_TRUE(layer.at("run_name").value.is_quoted);
  EXPECT_EQ(layer.at("adam_eps_root").origin, file() + ":5");
}

TEST_F(YamlFile, MakesDotsOfNestedMaps) {
  const Layer layer = read("dpo:\n  algo: 'dpo'\n  max_prompt_length: null\n");
  EXPECT_EQ(layer.at("dpo.algo").value.text, "dpo");
  EXPECT_TRUE(is_absent(layer.at("dpo.max_prompt_length").value));
  EXPECT_TRUE(read("dpo:\n").empty());
}

TEST_F(YamlFile, KeepsMapsThatAreValues) {
  const Layer layer = read("vllm_hf_overrides: {a: 1}\n");
  EXPECT_EQ(to_text(layer.at("vllm_hf_overrides").value), "{a: 1}");
}

TEST_F(YamlFile, ReadsAnEmptyFileAsNothing) {
  EXPECT_TRUE(read("# only a comment\n").empty());
}

TEST_F(YamlFile, RefusesAKeyGivenTwice) {
  EXPECT_EQ(refusal("steps: 1\nlog_period: 2\nsteps: 3\n"),
            "config: " + file() + ":3 steps: given twice, first at " + file() + ":1");
}

TEST_F(YamlFile, RefusesMalformedYaml) {
  EXPECT_EQ(refusal("steps: 1\nmesh_axes: [a, b\nlog_period: 2\n").substr(0, file().size() + 8), "config: " + file());
  EXPECT_NE(refusal("a: b: c\n").find(file() + ":1:"), std::string::npos);
  EXPECT_NE(refusal("steps: 1\n\tlog_period: 2\n").find("not valid YAML"), std::string::npos);
}

TEST_F(YamlFile, RefusesWhatIsNoMap) {
  EXPECT_EQ(refusal("- steps\n- 1\n"), "config: " + file() + ":1: is no map of keys and values");
  EXPECT_EQ(refusal("[a]: 1\n"), "config: " + file() + ":1: a key must be a word");
}

TEST_F(YamlFile, RefusesMoreThanOneDocument) {
  for (const char* stray : {", lr: 1\n", "steps: 1\n}\n", "] a: 1\n"}) {
    EXPECT_NE(refusal(stray).find("YAML"), std::string::npos) << stray << refusal(stray);
  }
  EXPECT_EQ(refusal("steps: 1\n---\nsteps: 2\n"), "config: " + file() + ":3: a second document in one file");
}

TEST_F(YamlFile, SurvivesAliasesWithoutEnd) {
  EXPECT_EQ(refusal("adamw_mask: &x [a, *x]\n"), "config: " + file() + ":1: nested too deeply");
  EXPECT_EQ(refusal("dpo: &x {a: *x}\n"), "config: " + file() + ":1: nested too deeply");
  std::string text = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 40; ++i) {
    const std::string name = "a" + std::to_string(i), last = "*a" + std::to_string(i - 1);
    text += name + ": &" + name + " [" + last + ", " + last + "]\n";
  }
  EXPECT_NE(refusal(text).find("too many values"), std::string::npos);
}

TEST_F(YamlFile, RefusesAFileItCannotRead) {
  EXPECT_EQ(config_error([&] { read_config_file(folder_.path(), ""); }),
            "config: " + folder_.path() + ": is a folder, not a file");
  EXPECT_EQ(config_error([&] { read_config_file(folder_.path() + "/none.yml", ""); }),
            "config: " + folder_.path() + "/none.yml: cannot be read");
}

TEST_F(YamlFile, RefusesBasesInACircle) {
  folder_.write("b.yml", "base_config: c.yml\n");
  folder_.write("c.yml", "base_config: a.yml\n");
  const std::string line = refusal("base_config: b.yml\n");
  EXPECT_EQ(line, "config: " + folder_.path() + "/c.yml:1 base_config: files that are each other's base: " + file() +
                      " -> " + folder_.path() + "/b.yml -> " + folder_.path() + "/c.yml -> " + file());
}

TEST_F(YamlFile, RefusesItselfAsBase) {
  EXPECT_NE(refusal("base_config: a.yml\n").find("each other's base"), std::string::npos);
}

TEST_F(YamlFile, RefusesABaseThatIsNotThere) {
  EXPECT_EQ(refusal("steps: 1\nbase_config: gone.yml\n"),
            "config: " + file() + ":2 base_config: no such file, beside it or shipped: gone.yml");
}

TEST_F(YamlFile, MergesMapsAndReplacesLists) {
  folder_.write("b.yml", "dpo: {algo: dpo, orpo_lambda: 0.3}\nadamw_mask: [a, b]\n");
  const std::string path = folder_.write("a.yml", "base_config: b.yml\ndpo: {algo: orpo}\nadamw_mask: [c]\n");
  const Layer layer = read_config_chain(path, "");
  EXPECT_EQ(layer.at("dpo.algo").value.text, "orpo");
  EXPECT_EQ(layer.at("dpo.orpo_lambda").value.text, "0.3");
  EXPECT_EQ(to_text(layer.at("adamw_mask").value), "[c]");
}

TEST_F(YamlFile, FindsTheBaseAmongTheShippedFiles) {
  folder_.write("configs/base.yml", "steps: 5\n");
  const std::string path = folder_.write("a.yml", "base_config: base.yml\n");
  const Layer layer = read_config_chain(path, folder_.path() + "/configs");
  EXPECT_EQ(layer.at("steps").origin, "configs/base.yml:1");
}

}  // namespace
}  // namespace ballast
