// SPDX-License-Identifier: Apache-2.0
// A document that ends with its row leaves a segment without tokens: NVIDIA/Megatron-LM#5298 (review thread).
#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

TEST(MegatronLm5298, SegmentsAddUpToTheRowAndNoneIsEmpty) {
  const ProgramFolder folder;
  write_documents(folder, "data/train.jsonl", {some_ids(32), some_ids(20, 1), some_ids(12, 2)});
  Words words = tiny_run(document_keys());
  words[0] = "inspect";
  const ProgramResult shown = folder.run(joined(words, {"--batch", "0", "--full"}));
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  const auto line = [](const Ids& ids) {
    std::string text = "    ids ";
    for (const int32_t id : ids) text += " " + std::to_string(id);
    return text + "\n";
  };
  EXPECT_EQ(shown.out,
            "batch 0: 2 rows of 32 positions, 61 loss tokens\nrow 0\n"
            "  segment 1  32 tokens, positions 0..31, loss tokens 31\n" +
                line(some_ids(32)) +
                "row 1\n"
                "  segment 1  20 tokens, positions 0..19, loss tokens 19\n" +
                line(some_ids(20, 1)) + "  segment 2  12 tokens, positions 0..11, loss tokens 11\n" +
                line(some_ids(12, 2)));
  const auto records = records_of(folder, tiny_run(document_keys()));
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].at("learning/total_weights"), 61);
}

// The last token of the row is the target of the position before it: 31 losses that probe finds on the same ids.
TEST(MegatronLm5298, TheLastTokenOfTheRowIsATarget) {
  const ProgramFolder folder;
  write_documents(folder, "data/train.jsonl", {some_ids(32)});
  const auto losses = probe(folder, 1, some_ids(32), Ids(32, 1)).at("token_loss");
  double sum = 0;
  for (size_t t = 0; t < 31; ++t) sum += losses[t];
  const Words keys = document_keys({"max_target_length=32", "per_device_batch_size=1"});
  const auto records = records_of(folder, golden_llama_run("train", keys));
  EXPECT_NEAR(records.at(0).at("learning/lm_loss").get<double>() / (sum / 31), 1.0, 1e-6);
}

}  // namespace
}  // namespace ballast::testing
