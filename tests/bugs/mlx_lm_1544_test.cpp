// SPDX-License-Identifier: Apache-2.0
// Mean of micro-batch means: ml-explore/mlx-lm#1544, meta-pytorch/torchtune#1875, huggingface/transformers#35203.
#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

// One row a document: 30, 2, 30 and 2 targets. A mean of means would give each token of a short row the weight of 15.
TEST(MlxLm1544, ShortRowsWeighTheirTokensHoweverTheStepIsCut) {
  const auto train = [](const Words& cut) {
    const ProgramFolder folder;
    write_documents(folder, "data/train.jsonl", {some_ids(31), some_ids(3, 1), some_ids(31, 2), some_ids(3, 3)});
    return records_of(folder, tiny_run(joined(document_keys({"packing=false", "num_epoch=3", "steps=3"}), cut)));
  };
  const auto whole = train({"per_device_batch_size=4"});
  ASSERT_EQ(whole.size(), 3U);
  EXPECT_EQ(series(whole, "learning/total_weights"), (std::vector<double>{64, 64, 64}));
  for (const Words& cut : {Words{"per_device_batch_size=1", "gradient_accumulation_steps=4"},
                           {"per_device_batch_size=2", "gradient_accumulation_steps=2"}}) {
    const auto records = train(cut);
    for (const char* tag : {"learning/loss", "learning/raw_grad_norm", "learning/param_norm"}) {
      expect_near(records, whole, tag, 2e-6);
    }
    EXPECT_EQ(series(records, "learning/total_weights"), series(whole, "learning/total_weights"));
  }
}

}  // namespace
}  // namespace ballast::testing
