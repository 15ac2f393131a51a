// SPDX-License-Identifier: Apache-2.0
// `ballast tokenize` as a user calls it.
#include <gtest/gtest.h>

#include <cstring>

#include "support/program.h"

namespace ballast::testing {
namespace {

const std::string kRoot = BALLAST_SOURCE_DIR;
const std::string kKjv = kRoot + "/examples/data/kjv";
const std::string kLlama2 = kRoot + "/tests/golden/tokenizer/spm_bpe_llama2/tokenizer.json";

std::vector<nlohmann::json> lines_of(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

// 42128 tokens in 52 documents without BOS and EOS, by the Python package tokenizers 0.23.3.
TEST(Tokenize, WritesATokenFileWithItsIndex) {
  const ProgramFolder folder;
  const std::string input = kKjv + "/validation-00000-of-00001.parquet";
  const ProgramResult result = folder.run({"tokenize", kKjv, input, "--out", "val.npy", "--sequence_length", "128"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("tokenize: 52 documents, 42232 tokens"), std::string::npos) << result.err;
  const std::string bytes = read_text(folder.path() / "val.npy");
  ASSERT_EQ(bytes.size(), 2u * (42128 + 2 * 52));
  uint16_t first[3];
  std::memcpy(first, bytes.data(), sizeof(first));
  EXPECT_EQ(first[0], 0);  // BOS
  EXPECT_EQ(first[1], 298);
  EXPECT_EQ(first[2], 356);
  const auto index = nlohmann::json::parse(read_text(folder.path() / "val.index.json"));
  EXPECT_EQ(index["dtype"], "uint16");
  EXPECT_EQ(index["sequence_length"], 128);
  EXPECT_EQ(index["total_tokens"], 42232);
  EXPECT_EQ(index["total_instances"], 42232 / 128);
  EXPECT_EQ(index["files"][0]["n_tokens"], 42232);
  EXPECT_EQ(std::filesystem::path(index["files"][0]["path"]).filename(), "val.npy");

  ASSERT_EQ(folder.run({"tokenize", kKjv, input, "--out", "plain.bin", "--no_bos", "--no_eos"}).exit_code, 0);
  EXPECT_EQ(std::filesystem::file_size(folder.path() / "plain.bin"), 2u * 42128);
}

TEST(Tokenize, GoesToIdsAndBackAsJsonLines) {
  const ProgramFolder folder;
  const std::vector<std::string> texts = {"the king", "", "a<s>b", "\xE4\xB8\xAD\n\xF0\x9F\x98\x80 x"};
  std::string input;
  for (const std::string& text : texts) input += nlohmann::json{{"text", text}}.dump() + "\n";
  folder.file("in.jsonl", input);
  ASSERT_EQ(folder.run({"tokenize", kLlama2, "in.jsonl", "--out", "ids.jsonl"}).exit_code, 0);
  const auto ids = lines_of(folder.path() / "ids.jsonl");
  ASSERT_EQ(ids.size(), texts.size());
  std::string back;
  for (const nlohmann::json& line : ids) {
    auto with_bos = line["ids_no_special"].get<std::vector<int>>();
    back += nlohmann::json{{"ids", with_bos}}.dump() + "\n";
    with_bos.insert(with_bos.begin(), 1);
    EXPECT_EQ(line["ids"].get<std::vector<int>>(), with_bos);
  }
  folder.file("back.jsonl", back);
  ASSERT_EQ(folder.run({"tokenize", kLlama2, "back.jsonl", "--out", "text.jsonl"}).exit_code, 0);
  const auto decoded = lines_of(folder.path() / "text.jsonl");
  ASSERT_EQ(decoded.size(), texts.size());
  EXPECT_EQ(decoded[0]["text"], texts[0]);
  EXPECT_EQ(decoded[1]["text"], "");
  EXPECT_EQ(decoded[2]["text"], "a<s> b");  // the normalizer marks the start after a special token too
  EXPECT_EQ(decoded[3]["text"], texts[3]);
}

// The folder holds the same documents as Parquet and as compressed JSON lines; one format is read.
TEST(Tokenize, TakesOneFormatOfAFolder) {
  const ProgramFolder folder;
  const ProgramResult result = folder.run({"tokenize", kKjv, kKjv, "--out", "all.bin"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("tokenize: 1189 documents"), std::string::npos) << result.err;
}

TEST(Tokenize, TrainingTellsWhenTheFileIsOfAnotherType) {
  const ProgramFolder folder;
  std::vector<std::string> words =
      tiny_run({"dataset_type=hf", "hf_path=" + kKjv, "tokenizer_path=" + kKjv + "/tokenizer.json", "vocab_size=4096",
                "tokenizer_type=tiktoken", "--batch", "0"});
  words[0] = "inspect";
  const ProgramResult result = folder.run(words);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(
      result.err.find("tokenizer_type=tiktoken, but " + kKjv + "/tokenizer.json holds a tokenizer of type huggingface"),
      std::string::npos)
      << result.err;
}

TEST(Tokenize, RefusesInOneLineAndLeavesNothingBehind) {
  const ProgramFolder folder;
  folder.file("in.txt", "one\ntwo\n");
  folder.file("bad.jsonl", "{\"text\": \"a\"}\n{\"text\": 1}\n");
  folder.file("cut.model", "\x0A\x0E");
  const auto expect = [&](const std::vector<std::string>& arguments, int code, const std::string& part) {
    const ProgramResult result = folder.run(arguments);
    EXPECT_EQ(result.exit_code, code) << result.err;
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  };
  expect({"tokenize"}, 2, "no tokenizer is given");
  expect({"tokenize", kKjv}, 2, "no input is given");
  expect({"tokenize", kKjv, "in.txt"}, 2, "--out is missing");
  expect({"tokenize", kKjv, "in.txt", "--out"}, 2, "lacks its value");
  expect({"tokenize", kKjv, "in.txt", "--out", "a.csv"}, 2, "unknown ending");
  expect({"tokenize", kKjv, "in.txt", "--out", "a.npy", "--sequence_length", "0"}, 2, "a number from 1");
  expect({"tokenize", kKjv, "in.txt", "--out", "a.npy", "--fast"}, 2, "means nothing here");
  expect({"tokenize", "cut.model", "in.txt", "--out", "a.npy"}, 3, "is not a SentencePiece model or is cut off");
  expect({"tokenize", kKjv, "none.txt", "--out", "a.npy"}, 3, "no such file");
  expect({"tokenize", kKjv, "in.txt", "--out", "none/a.npy"}, 3, "cannot be written");
  expect({"tokenize", kKjv, "bad.jsonl", "--out", "a.npy"}, 3, "bad.jsonl");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const std::string name = entry.path().filename().string();
    files += name.starts_with("a.") || name.starts_with(".a.") ? 1 : 0;
  }
  EXPECT_EQ(files, 0);
}

}  // namespace
}  // namespace ballast::testing
