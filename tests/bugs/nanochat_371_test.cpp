// SPDX-License-Identifier: Apache-2.0
// Data shorter than a row: wild reads, or a loader that spins for ever: maderix/ANE#17, karpathy/nanochat#371.
#include <chrono>

#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

void expect_data_error(const ProgramFolder& folder, const Words& words, const Words& parts) {
  const auto start = std::chrono::steady_clock::now();
  const ProgramResult result = folder.run(words);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_EQ(result.exit_code, 3) << result.err;
  for (const std::string& part : parts) EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  EXPECT_EQ(result.out.find("completed step"), std::string::npos);
}

TEST(NanoChat371, ARowWithoutItsLastTargetIsRefused) {
  const ProgramFolder folder;
  write_recorded(folder.path() / "rows.safetensors", 2, 31, some_ids(64), Ids(64, 1));
  expect_data_error(folder, tiny_run({"dataset_type=recorded", "recorded_batches_path=rows.safetensors"}),
                    {"rows.safetensors", "[1, 2, 32]", "33"});
}

TEST(NanoChat371, DocumentsThatFillNoBatchAreCounted) {
  const ProgramFolder folder;
  write_documents(folder, "data/train.jsonl", {some_ids(7)});
  expect_data_error(folder, tiny_run(document_keys()),
                    {"split 'train': does not fill one batch; got 7 tokens in rows of 32, need 2 rows"});
}

TEST(NanoChat371, AnEmptyFileIsNamed) {
  const ProgramFolder folder;
  write_documents(folder, "data/train.jsonl", {});
  expect_data_error(folder, tiny_run(document_keys({"num_epoch=1000000000"})),
                    {"split 'train': holds no documents; got 0 in data/train.jsonl"});
}

TEST(NanoChat371, AMissingFolderIsNamed) {
  const ProgramFolder folder;
  expect_data_error(folder, tiny_run(document_keys()), {"hf_path=data", "no folder, no file"});
}

TEST(NanoChat371, EpochsWithoutATokenEnd) {
  for (const char* shuffling : {"enable_data_shuffling=false", "enable_data_shuffling=true"}) {
    const ProgramFolder folder;
    write_documents(folder, "data/train.jsonl", {{}, {}, {}});
    expect_data_error(folder, tiny_run(document_keys({"num_epoch=1000000000", shuffling})),
                      {"split 'train': an epoch holds no token", "data/train.jsonl row "});
  }
}

}  // namespace
}  // namespace ballast::testing
