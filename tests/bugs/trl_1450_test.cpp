// SPDX-License-Identifier: Apache-2.0
// 1e-4 read as a word: huggingface/trl#1450, hiyouga/LlamaFactory#4014, MichiganCOG/ViP#8.
#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

/// "NAME = VALUE" of --print_config, without the origins.
std::map<std::string, std::string> printed_config(const Words& words) {
  const ProgramFolder folder;
  std::string yaml = "run_name: t\nbase_output_directory: out\ndataset_type: synthetic\n";
  Words line = {"train", "run.yml", "--print_config"};
  for (const std::string& word : words) {
    if (word.starts_with("yaml:")) {
      yaml += word.substr(5) + "\n";
    } else {
      line.push_back(word);
    }
  }
  folder.file("run.yml", yaml);
  const ProgramResult result = folder.run(line);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::map<std::string, std::string> values;
  std::istringstream stream(result.out);
  for (std::string text; std::getline(stream, text);) {
    const size_t equals = text.find(" = "), origin = text.rfind("  (");
    if (equals == std::string::npos || origin == std::string::npos) continue;
    const std::string value = origin < equals + 3 ? "" : text.substr(equals + 3, origin - equals - 3);
    values[text.substr(0, equals)] = value.substr(0, value.find_last_not_of(' ') + 1);
  }
  return values;
}

TEST(Trl1450, EverySpellingOfAValueMeansTheSameInTheFileAndOnTheLine) {
  struct Spelling {
    std::string key, text, meaning;
  };
  const std::vector<std::vector<Spelling>> groups = {
      {{"learning_rate", "1e-4", "1e-04"}, {"vocab_size", "150_001", "150001"}, {"packing", "True", "true"}},
      {{"learning_rate", "1.e-4", "1e-04"}, {"vocab_size", "150001", "150001"}, {"packing", "true", "true"}},
      {{"learning_rate", "1.0E-4", "1e-04"}, {"vocab_size", "1.5e5", "150000"}, {"packing", "False", "false"}},
      {{"learning_rate", "0.0001", "1e-04"}, {"rope_attention_factor", "null", "None"}, {"packing", "no", "false"}}};
  for (const std::vector<Spelling>& group : groups) {
    Words in_file, on_line;
    for (const Spelling& spelling : group) {
      in_file.push_back("yaml:" + spelling.key + ": " + spelling.text);
      on_line.push_back(spelling.key + "=" + spelling.text);
    }
    const auto from_file = printed_config(in_file), from_line = printed_config(on_line);
    EXPECT_EQ(from_file, from_line);
    for (const Spelling& spelling : group) {
      EXPECT_EQ(from_file.at(spelling.key), spelling.meaning) << spelling.key << " " << spelling.text;
    }
  }
}

}  // namespace
}  // namespace ballast::testing
