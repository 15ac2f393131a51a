// SPDX-License-Identifier: Apache-2.0
// A rest shorter than a row that vanishes without a word: huggingface/transformers#18304 (with #17875).
#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

// 61 tokens, 1.9 rows of 32.
TEST(Transformers18304, WhatTruncationCostsIsTold) {
  const ProgramFolder folder;
  write_documents(folder, "data/train.jsonl", {some_ids(61), some_ids(33, 1)});
  const ProgramResult result = folder.run(tiny_run(document_keys({"per_device_batch_size=1"})));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* part :
       {"warning: data: data/train.jsonl row 0: the end is left out, 29 of 61 tokens, for "
        "max_target_length=32; so is that of every longer document (use_truncation=false keeps them)",
        "split 'train': ends left out by use_truncation: 30 tokens of 2 documents",
        "ends after 2 rows; left out, because they fill no batch of 1 rows: 0 (tokens: 0)"}) {
    EXPECT_NE(result.err.find(part), std::string::npos) << part << "\n" << result.err;
  }
  EXPECT_EQ(result.err.find("data/train.jsonl row 1"), std::string::npos) << "one warning is enough\n" << result.err;
}

// The second piece starts with the last token of the first one: 31 targets, then 29.
TEST(Transformers18304, TheRestTrainsWhereTruncationIsOff) {
  const ProgramFolder folder;
  write_documents(folder, "data/train.jsonl", {some_ids(61)});
  const Words keys = document_keys({"per_device_batch_size=1", "use_truncation=false"});
  const ProgramResult result = folder.run(tiny_run(keys));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(series(read_records(folder.path() / "out/t/metrics.jsonl", "train"), "learning/total_weights"),
            (std::vector<double>{31, 29}));
  EXPECT_EQ(result.err.find("left out by"), std::string::npos) << result.err;
}

// 61 tokens as two documents of 30 and 31: each row is padded, none is dropped.
TEST(Transformers18304, ASmallSetDoesNotDisappear) {
  const ProgramFolder folder;
  write_documents(folder, "data/train.jsonl", {some_ids(30), some_ids(31, 1)});
  const ProgramResult result = folder.run(tiny_run(document_keys({"per_device_batch_size=2"})));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(series(read_records(folder.path() / "out/t/metrics.jsonl", "train"), "learning/total_weights"),
            (std::vector<double>{29 + 30}));
  EXPECT_NE(result.err.find("ends after 2 rows; left out, because they fill no batch of 2 rows: 0 (tokens: 0)"),
            std::string::npos)
      << result.err;
}

}  // namespace
}  // namespace ballast::testing
