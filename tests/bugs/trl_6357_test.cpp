// SPDX-License-Identifier: Apache-2.0
// End tokens masked because the pad id is theirs: huggingface/trl#6357, NVIDIA-NeMo/Megatron-Bridge#4660.
#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

// Files of ids are padded with 0; 0 is also their end token here, inside the documents and at their ends.
TEST(Trl6357, EndTokensCountAndPaddingDoesNot) {
  const ProgramFolder folder;
  write_documents(folder, "data/train.jsonl", {{5, 6, 0, 7, 8, 0}, {9, 0}, {0, 0, 0}});
  const Words keys = document_keys({"max_target_length=16", "per_device_batch_size=1"});
  const auto records = records_of(folder, golden_llama_run("train", keys));
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].at("learning/total_weights"), 5 + 1 + 2);
  // The same targets by position, through the probe.
  const Ids row = {5, 6, 0, 7, 8, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0},
            segments = {1, 1, 1, 1, 1, 1, 2, 2, 3, 3, 3, 0, 0, 0, 0, 0};
  const auto losses = probe(folder, 1, row, segments).at("token_loss");
  double sum = 0;
  for (const size_t t : {0, 1, 2, 3, 4, 6, 8, 9}) {
    EXPECT_GT(losses[t], 0) << t;
    sum += losses[t];
  }
  EXPECT_NEAR(records[0].at("learning/lm_loss").get<double>() / (sum / 8), 1.0, 1e-6);
}

}  // namespace
}  // namespace ballast::testing
