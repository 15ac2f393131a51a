// SPDX-License-Identifier: Apache-2.0
// An evaluation that averages batch means: pytorch/torchtitan#4167, huggingface/transformers#41898.
#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

// Rows of 1 and 9 targets: the loss of the pass is the sum of ten token losses over ten, whatever the batch.
TEST(TorchTitan4167, EvaluationWeighsTokens) {
  const Ids short_row = some_ids(2), long_row = some_ids(10, 1);
  const ProgramFolder folder;
  write_documents(folder, "data/validation.jsonl", {short_row, long_row});
  double sum = probe(folder, 1, short_row, Ids(2, 1)).at("token_loss")[0];
  const double short_mean = sum;
  const auto losses = probe(folder, 1, long_row, Ids(10, 1)).at("token_loss");
  for (size_t t = 0; t < 9; ++t) sum += losses[t];
  ASSERT_GT(std::abs((short_mean + (sum - short_mean) / 9) / 2 - sum / 10), 0.05) << "a mean of means would show";
  for (const char* rows : {"per_device_batch_size=1", "per_device_batch_size=2", "per_device_batch_size=3"}) {
    const Words keys = document_keys({"max_target_length=16", "packing=false", "hf_eval_split=validation", rows});
    const ProgramFolder run;
    write_documents(run, "data/validation.jsonl", {short_row, long_row});
    const auto records = records_of(run, golden_llama_run("eval", keys), "eval");
    ASSERT_EQ(records.size(), 1U);
    EXPECT_EQ(records[0].at("eval/total_weights"), 10);
    EXPECT_NEAR(records[0].at("eval/avg_loss").get<double>() / (sum / 10), 1.0, 1e-6) << rows;
  }
}

}  // namespace
}  // namespace ballast::testing
