// SPDX-License-Identifier: Apache-2.0
// Wrong input from the command line: one clear line, the right exit code, nothing half-written.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/program.h"

namespace ballast::testing {
namespace {

struct BadInput {
  std::string name;
  std::vector<std::string> arguments;
  int exit_code;
  std::vector<std::string> parts;  ///< what the line must hold
};

std::vector<BadInput> bad_inputs() {
  const std::string golden = std::string(BALLAST_SOURCE_DIR) + "/tests/golden/llama";
  const std::string tokenizer =
      std::string("tokenizer_path=") + BALLAST_SOURCE_DIR + "/examples/data/kjv/tokenizer.json";
  return {
      {"UnknownCommand", {"trian"}, 2, {"trian", "train"}},
      {"NoArguments", {}, 2, {}},
      {"UnknownKey", tiny_run({"learnin_rate=1e-4"}), 2, {"learnin_rate", "learning_rate"}},
      {"UnknownKeyInFile", {"train", "unknown.yml"}, 2, {"unknown.yml:2", "stepz", "steps"}},
      {"MissingFile", {"train", "absent.yml"}, 2, {"absent.yml"}},
      {"BrokenYaml", {"train", "broken.yml"}, 2, {"broken.yml:"}},
      {"WordForANumber", tiny_run({"steps=many"}), 2, {"steps", "many"}},
      {"FractionForAnInteger", tiny_run({"vocab_size=12.5"}), 2, {"vocab_size", "12.5"}},
      {"NegativeSteps", tiny_run({"steps=-5"}), 2, {"steps", "-5"}},
      {"UnknownDataset", tiny_run({"dataset_type=webdataset"}), 2, {"dataset_type", "webdataset"}},
      {"UnknownModel", tiny_run({"model_name=llama9-1b"}), 2, {"llama9-1b"}},
      {"HeadsThatDoNotDivide", tiny_run({"base_num_query_heads=3"}), 2, {"3", "2"}},
      {"KeyOfALaterVersion", tiny_run({"num_experts=8"}), 2, {"num_experts"}},
      {"HfWithoutPath", tiny_run({"dataset_type=hf"}), 2, {"hf_path"}},
      {"EndlessEvaluation", tiny_run({"eval_interval=2", "eval_steps=-1"}), 2, {"eval_steps"}},
      {"WordWithoutValue", tiny_run({"steps"}), 2, {"steps"}},
      {"DataFolderMissing", tiny_run({"dataset_type=hf", "hf_path=no_such_folder", tokenizer}), 3, {"no_such_folder"}},
      {"DataFolderEmpty", tiny_run({"dataset_type=hf", "hf_path=empty", "vocab_size=4096", tokenizer}), 3, {"empty"}},
      {"TextWithoutTokenizer", tiny_run({"dataset_type=hf", "hf_path=text"}), 2, {"tokenizer_path"}},
      {"TokenizerLargerThanTheModel", tiny_run({"dataset_type=hf", "hf_path=text", tokenizer}), 3, {"4096", "128"}},
      {"WrongColumn",
       tiny_run({"dataset_type=hf", "hf_path=text", "vocab_size=4096", "train_data_columns=body", tokenizer}),
       3,
       {"body", "text"}},
      {"BrokenTokenizer",
       tiny_run({"dataset_type=hf", "hf_path=text", "tokenizer_type=huggingface", "tokenizer_path=broken.json"}),
       3,
       {"broken.json"}},
      {"RecordedFileMissing",
       tiny_run({"dataset_type=recorded", "recorded_batches_path=none.safetensors"}),
       3,
       {"none.safetensors"}},
      {"RecordedFileCut",
       tiny_run({"dataset_type=recorded", "recorded_batches_path=cut.safetensors"}),
       3,
       {"cut.safetensors"}},
      {"ModelFolderMissing", tiny_run({"hf_model_path=no_model"}), 2, {"no_model"}},
      {"ModelFolderWithoutWeights", tiny_run({"hf_model_path=no_weights"}), 2, {}},
      {"ProbeWithoutTokens", {"probe", golden}, 2, {"--tokens"}},
      {"ProbeTokensMissing",
       {"probe", golden, "--tokens", "none.safetensors", "--out", "o.safetensors"},
       3,
       {"none.safetensors"}},
      {"InspectMissing", {"inspect", "nothing.safetensors"}, 3, {"nothing.safetensors"}},
  };
}

class BadInputs : public ::testing::TestWithParam<BadInput> {};

TEST_P(BadInputs, GetOneLineAndTheirExitCode) {
  const BadInput& input = GetParam();
  const ProgramFolder folder;
  folder.file("unknown.yml", "base_config: base.yml\nstepz: 10\n");
  folder.file("broken.yml", "steps: [1, 2\nrun_name: x\n");
  folder.file("broken.json", "{\"model\": ");
  folder.file("cut.safetensors", std::string("\x40\0\0\0\0\0\0\0{", 9));
  std::filesystem::create_directories(folder.path() / "empty");
  std::filesystem::create_directories(folder.path() / "text");
  std::filesystem::create_directories(folder.path() / "no_weights");
  folder.file("text/train.jsonl", "{\"text\": \"In the beginning\"}\n");
  const ProgramResult result = folder.run(input.arguments);
  EXPECT_EQ(result.exit_code, input.exit_code) << result.err;
  for (const std::string& part : input.parts) EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  if (!input.arguments.empty()) {
    const std::string line =
        result.err.substr(result.err.rfind("error: ") == std::string::npos ? 0 : result.err.rfind("error: "));
    EXPECT_TRUE(line.starts_with("error: ")) << result.err;
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << result.err;
  }
  EXPECT_EQ(result.out.find("completed step"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "o.safetensors"));
}

TEST(FullDisk, EndsTheRunWithTheNameOfTheFile) {
  const ProgramFolder folder;
  const ProgramResult result = folder.run(tiny_run({"metrics_file=/dev/full"}));
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_NE(result.err.find("error: "), std::string::npos);
  EXPECT_NE(result.err.find("/dev/full"), std::string::npos) << result.err;
}

INSTANTIATE_TEST_SUITE_P(Cases, BadInputs, ::testing::ValuesIn(bad_inputs()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ballast::testing
