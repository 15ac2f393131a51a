// SPDX-License-Identifier: Apache-2.0
// Which source wins, and what is said about the losers.
#include "config/resolve.h"

#include <gtest/gtest.h>

#include "config/configs_folder.h"
#include "files.h"

namespace ballast {
namespace {

// A configs folder of its own, with one model.
class Resolve : public ::testing::Test {
 protected:
  Resolve() {
    folder_.write("configs/base.yml", "steps: 100\nlearning_rate: 1.e-4\nhardware: auto\ndataset_type: synthetic\n");
    folder_.write("configs/models/tiny.yml", "# a model\nbase_emb_dim: 64\ndropout_rate: 0.25\nvocab_size: 1_000\n");
  }

  // Away from the source tree, whose files would be found first.
  void SetUp() override {
    old_folder_ = std::filesystem::current_path();
    std::filesystem::current_path(folder_.path() + "/configs/models");
  }
  void TearDown() override { std::filesystem::current_path(old_folder_); }

  Config run(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment = {}) {
    ConfigOptions options;
    options.configs_folder = folder_.path() + "/configs";
    options.environment = environment;
    ::testing::internal::CaptureStderr();
    try {
      const Config config = resolve_config(arguments, options);
      log_ = ::testing::internal::GetCapturedStderr();
      return config;
    } catch (const Error&) {
      log_ = ::testing::internal::GetCapturedStderr();
      throw;
    }
  }
  std::string refusal(const std::vector<std::string>& arguments,
                      const std::map<std::string, std::string>& environment = {}) {
    return config_error([&] { run(arguments, environment); });
  }
  bool logged(const std::string& text) const { return log_.find(text) != std::string::npos; }

  TempFolder folder_;
  std::filesystem::path old_folder_;
  std::string log_;
};

TEST_F(Resolve, DefaultsGiveWayToTheFile) {
  const Config config = run({});
  EXPECT_EQ(config.steps, 100);
  EXPECT_EQ(config.origin("steps"), "configs/base.yml:1");
  EXPECT_EQ(config.adam_b1, 0.9);
  EXPECT_EQ(config.origin("adam_b1"), "default");
}

TEST_F(Resolve, TheBaseGivesWayToItsChild) {
  folder_.write("mine.yml", "base_config: base.yml\nsteps: 7\n");
  const std::string grandchild = folder_.write("sub/deep.yml", "base_config: ../mine.yml\neval_start_step: 2\n");
  const Config config = run({grandchild});
  EXPECT_EQ(config.steps, 7);
  EXPECT_EQ(config.origin("steps"), folder_.path() + "/sub/../mine.yml:2");
  EXPECT_EQ(config.learning_rate, 1e-4);
  EXPECT_EQ(config.eval_start_step, 2);
}

TEST_F(Resolve, TheFileGivesWayToTheModel) {
  const std::string file = folder_.write("mine.yml",
                                         "model_name: tiny\nbase_emb_dim: 128\ndropout_rate: 0.5\n"
                                         "dataset_type: synthetic\n");
  const Config config = run({file});
  EXPECT_EQ(config.base_emb_dim, 64);
  EXPECT_EQ(config.origin("base_emb_dim"), "configs/models/tiny.yml:2");
  EXPECT_TRUE(logged("base_emb_dim=128 (" + file + ":2) gives way to base_emb_dim=64 (configs/models/tiny.yml:2)"));
  EXPECT_TRUE(logged("dropout_rate=0.5"));
}

TEST_F(Resolve, TheModelsSoftKeysGiveWayToTheCommandLine) {
  const Config config = run({"model_name=tiny", "dropout_rate=0"});
  EXPECT_EQ(config.dropout_rate, 0.0);
  EXPECT_EQ(config.origin("dropout_rate"), "command line");
  EXPECT_TRUE(logged("config: dropout_rate=0 (command line) replaces dropout_rate=0.25 (configs/models/tiny.yml:3)"));
}

TEST_F(Resolve, TheModelsHardKeysDoNot) {
  EXPECT_EQ(refusal({"model_name=tiny", "base_emb_dim=128"}),
            "config: command line base_emb_dim: contradicts the model; got 128, need 64 "
            "(configs/models/tiny.yml:2); try override_model_config=true");
  EXPECT_EQ(refusal({"model_name=tiny"}, {{"M_VOCAB_SIZE", "2000"}}),
            "config: environment M_VOCAB_SIZE vocab_size: contradicts the model; got 2000, need 1_000 "
            "(configs/models/tiny.yml:4); try override_model_config=true");
}

TEST_F(Resolve, EqualHardValuesAreFine) {
  EXPECT_EQ(run({"model_name=tiny", "base_emb_dim=64", "vocab_size=1000.0"}).vocab_size, 1000);
  EXPECT_FALSE(logged("replaces"));
}

TEST_F(Resolve, OverrideModelConfigLetsTheCommandLineWin) {
  const Config config = run({"model_name=tiny", "base_emb_dim=128", "override_model_config=True"});
  EXPECT_EQ(config.base_emb_dim, 128);
  EXPECT_EQ(config.vocab_size, 1000);
}

TEST_F(Resolve, TheEnvironmentRanksWithTheCommandLine) {
  const Config config = run({"learning_rate=0.5"}, {{"M_STEPS", "9"}, {"PATH", "/bin"}});
  EXPECT_EQ(config.steps, 9);
  EXPECT_EQ(config.origin("steps"), "environment M_STEPS");
  EXPECT_EQ(refusal({"steps=9"}, {{"M_STEPS", "9"}}),
            "config: environment M_STEPS steps: given on the command line too; need one of them");
}

TEST_F(Resolve, NearlyRightVariablesDrawAWarning) {
  run({}, {{"M_STEPPS", "9"}, {"M_FOO", "1"}});
  EXPECT_TRUE(logged("environment M_STEPPS names no key and is ignored; did you mean M_STEPS?"));
  EXPECT_FALSE(logged("M_FOO"));
}

TEST_F(Resolve, InstructModelsHaveTheShapeOfTheirBase) {
  EXPECT_EQ(run({"model_name=tiny-Instruct"}).base_emb_dim, 64);
}

TEST_F(Resolve, UnknownModelsAreRefusedWithTheirNeighbours) {
  EXPECT_EQ(refusal({"model_name=tinny"}), "config: command line model_name: no such model; got tinny, need tiny");
  EXPECT_NE(refusal({"model_name=../../etc/passwd"}).find("no such model"), std::string::npos);
}

TEST_F(Resolve, ModelsBesideTheFileComeFirst) {
  const std::string file = folder_.write("own/run.yml", "base_config: base.yml\nmodel_name: tiny\n");
  folder_.write("own/models/tiny.yml", "base_emb_dim: 32\n");
  EXPECT_EQ(run({file}).base_emb_dim, 32);
}

TEST_F(Resolve, AModelIsGivenOnce) {
  EXPECT_EQ(refusal({"model_name=tiny", "hf_model_path=/x"}),
            "config: command line hf_model_path: the model is given twice; got model_name=tiny (command line) too, "
            "need one of them");
}

TEST_F(Resolve, PathsOfMaxTextsTreeMeanTheShippedFiles) {
  for (const char* path : {"src/maxtext/configs/base.yml", "maxtext/configs/base.yml", "MaxText/configs/base.yml",
                           "configs/base.yml", "base.yml"}) {
    EXPECT_EQ(run({path}).steps, 100) << path;
    EXPECT_TRUE(logged(std::string("config: no file ") + path + " here; using ")) << path;
  }
  EXPECT_EQ(refusal({"src/maxtext/configs/nothing.yml"}),
            "config: src/maxtext/configs/nothing.yml: no such file, here or among the shipped ones in " +
                folder_.path() + "/configs");
  EXPECT_NE(refusal({"configs/../../secret.yml"}).find("no such file"), std::string::npos);
}

TEST_F(Resolve, XlaFlagsSetTheDevicesOfACpu) {
  const std::map<std::string, std::string> flags = {
      {"XLA_FLAGS", "--xla_dump --xla_force_host_platform_device_count=1 --x"}};
  EXPECT_EQ(run({"hardware=cpu"}, flags).origin("cpu_devices"), "environment XLA_FLAGS");
  EXPECT_EQ(run({}, flags).origin("cpu_devices"), "default");
  EXPECT_EQ(run({"hardware=cpu", "cpu_devices=1"}, flags).origin("cpu_devices"), "command line");
  EXPECT_NE(refusal({"hardware=cpu"}, {{"XLA_FLAGS", "--xla_force_host_platform_device_count=8"}})
                .find("environment XLA_FLAGS cpu_devices: not built yet"),
            std::string::npos);
}

TEST_F(Resolve, UnknownKeysOfFilesAreNamedByLine) {
  const std::string file = folder_.write("mine.yml", "steps: 3\n\nlearnin_rate: 1\nnested:\n  thing: 2\n");
  EXPECT_EQ(refusal({file}), "config: " + file + ":3 learnin_rate: unknown key; did you mean learning_rate? | " + file +
                                 ":5 nested.thing: unknown key");
}

TEST_F(Resolve, BadValuesOfFilesAreNamedByLine) {
  const std::string file = folder_.write("mine.yml", "# one\n# two\nsteps: many\n");
  EXPECT_EQ(refusal({file}), "config: " + file + ":3 steps: wrong type; got many, need an integer of 64 bits");
  const std::string list = folder_.write("list.yml", "steps: [1, 2]\n");
  EXPECT_EQ(refusal({list}), "config: " + list + ":1 steps: wrong type; got [1, 2], need an integer of 64 bits");
}

TEST_F(Resolve, PrintsEveryValueWithItsOrigin) {
  const std::string page = print_config(run({"model_name=tiny", "run_name=r"}));
  EXPECT_NE(page.find("\nsteps = 100  (configs/base.yml:1)\n"), std::string::npos);
  EXPECT_NE(page.find("\nbase_emb_dim = 64  (configs/models/tiny.yml:2)\n"), std::string::npos);
  EXPECT_NE(page.find("\nrun_name = r  (command line)\n"), std::string::npos);
  EXPECT_NE(page.find("\nemb_dim = 64  (derived)\n"), std::string::npos);
  EXPECT_NE(page.find("\nsa_block_q = 512  (default)\n"), std::string::npos);
}

TEST_F(Resolve, RemarksOnValuesThatNeedOne) {
  run({"hardware=tpu"});
  EXPECT_TRUE(logged("config: hardware=tpu: taken as auto"));
}

TEST(ConfigsFolder, IsFoundAboveTheProgram) {
  const std::string folder = find_configs_folder();
  EXPECT_TRUE(std::filesystem::exists(folder + "/base.yml"));
}

TEST(ConfigsFolder, IsTakenFromTheEnvironment) {
  TempFolder folder;
  setenv("BALLAST_CONFIGS", folder.path().c_str(), 1);
  EXPECT_EQ(config_error([] { find_configs_folder(); }),
            "config: environment BALLAST_CONFIGS: no folder with base.yml; got " + folder.path());
  folder.write("base.yml", "");
  EXPECT_EQ(find_configs_folder(), folder.path());
  unsetenv("BALLAST_CONFIGS");
}

}  // namespace
}  // namespace ballast
