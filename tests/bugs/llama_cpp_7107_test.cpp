// SPDX-License-Identifier: Apache-2.0
// Two begin tokens where the text already starts with one: ggml-org/llama.cpp#7107, google/tunix#822.
#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

/// The lines of ids of the first batch: one document a row.
std::vector<std::string> shown_ids(const Words& more) {
  const ProgramFolder folder;
  std::filesystem::create_directories(folder.path() / "data");
  folder.file("data/train.jsonl", "{\"text\": \"In the beginning\"}\n{\"text\": \"<|bos|>In the beginning\"}\n");
  const std::string tokenizer = std::string(BALLAST_SOURCE_DIR) + "/examples/data/kjv/tokenizer.json";
  Words words = tiny_run({"dataset_type=hf", "hf_path=data", "vocab_size=4096", "packing=false",
                          "enable_data_shuffling=false", "tokenizer_path=" + tokenizer});
  words[0] = "inspect";
  const ProgramResult result = folder.run(joined(joined(words, more), {"--batch", "0", "--full"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::vector<std::string> lines;
  std::istringstream stream(result.out);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("    ids  ")) lines.push_back(line.substr(9));
  }
  return lines;
}

// <|bos|> has id 0 in this tokenizer, <|eos|> 1.
TEST(LlamaCpp7107, ADocumentHasOneBeginTokenHoweverItsTextStarts) {
  const std::vector<std::string> lines = shown_ids({"add_bos=true"});
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0], lines[1]);
  EXPECT_TRUE(lines[0].starts_with("0 ")) << lines[0];
  EXPECT_FALSE(lines[0].starts_with("0 0 ")) << lines[0];
}

TEST(LlamaCpp7107, WithoutAddBosTheTextDecides) {
  const std::vector<std::string> lines = shown_ids({"add_bos=false"});
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ("0 " + lines[0], lines[1]);
}

}  // namespace
}  // namespace ballast::testing
