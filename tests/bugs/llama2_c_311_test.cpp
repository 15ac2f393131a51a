// SPDX-License-Identifier: Apache-2.0
// Works with two shards, fails with one: karpathy/llama2.c#311.
#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

TEST(Llama2C311, OneFileTrains) {
  const ProgramFolder folder;
  write_documents(folder, "data/train.jsonl", {some_ids(20), some_ids(20, 1), some_ids(20, 2), some_ids(20, 3)});
  EXPECT_EQ(records_of(folder, tiny_run(document_keys())).size(), 2U);
  EXPECT_EQ(records_of(folder, tiny_run(document_keys({"hf_path=data/train.jsonl"}))).size(), 2U);
}

TEST(Llama2C311, EvaluationWithoutASplitOfItsOwnIsRefusedAtTheStart) {
  const ProgramFolder folder;
  write_documents(folder, "data/train.jsonl", {some_ids(20), some_ids(20, 1)});
  for (const char* path : {"hf_path=data", "hf_path=data/train.jsonl"}) {
    const ProgramResult result =
        folder.run(tiny_run(document_keys({path, "eval_interval=1", "hf_eval_split=validation"})));
    EXPECT_EQ(result.exit_code, 3) << result.err;
    for (const char* part : {"'validation'", "data", "hf_eval_files"}) {
      EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
    }
    EXPECT_EQ(result.out.find("completed step"), std::string::npos);
  }
}

TEST(Llama2C311, OneFileMayServeBothWhenNamedForBoth) {
  const ProgramFolder folder;
  write_documents(folder, "data/all.jsonl", {some_ids(20), some_ids(20, 1)});
  const ProgramResult result = folder.run(tiny_run(
      document_keys({"hf_path=", "hf_train_files=data/all.jsonl", "hf_eval_files=data/all.jsonl", "eval_interval=1"})));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto evaluations = read_records(folder.path() / "out/t/metrics.jsonl", "eval");
  ASSERT_EQ(evaluations.size(), 1U);
  EXPECT_EQ(evaluations[0].at("eval/total_weights"), 19 + 19);
}

}  // namespace
}  // namespace ballast::testing
