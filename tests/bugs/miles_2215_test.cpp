// SPDX-License-Identifier: Apache-2.0
// Targets of prediction modules that are moved twice: radixark/miles#2215. Modules that learn positions the loss leaves
// out: modelscope/ms-swift#8192. Their evaluation is a statistic, no part of the loss.
#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

// Ids that count upwards: the next token, and the one behind it, follow from the last one alone.
TEST(Miles2215, ModulesLearnACycle) {
  const ProgramFolder folder;
  std::vector<Ids> documents(8);
  for (int i = 0; i < 8; ++i) {
    for (int t = 0; t < 33; ++t) documents[static_cast<size_t>(i)].push_back(1 + (7 * i + t) % 63);
  }
  write_documents(folder, "data/train.jsonl", documents);
  const auto records = records_of(
      folder, tiny_run(joined(document_keys({"num_epoch=400", "packing=false", "hf_eval_files=data/train.jsonl"}),
                              {"steps=200", "mtp_num_layers=2", "mtp_loss_scaling_factor=1",
                               "warmup_steps_fraction=0.05", "add_bos=false", "add_eos=false"})));
  ASSERT_EQ(records.size(), 200U);
  EXPECT_GT(records.front().at("learning/mtp_loss"), 3.0);
  EXPECT_LT(records.back().at("learning/mtp_loss"), 0.1);
  EXPECT_LT(records.back().at("learning/lm_loss"), 0.1);
}

TEST(MsSwift8192, EvaluationLossHasNoPartOfTheModules) {
  const auto evaluations = [](const Words& more) {
    const ProgramFolder folder;
    return records_of(folder, tiny_run(joined({"steps=1", "eval_interval=1", "eval_steps=1", "learning_rate=0"}, more)),
                      "eval")
        .at(0);
  };
  const nlohmann::json with = evaluations({"mtp_num_layers=1", "mtp_eval_target_module=1"});
  EXPECT_EQ(with.at("eval/avg_loss"), evaluations({}).at("eval/avg_loss"));
  EXPECT_GT(with.at("eval/avg_mtp_loss"), 0);
  EXPECT_GE(with.at("eval/avg_mtp_acceptance_rate_percent"), 0);
  EXPECT_LE(with.at("eval/avg_mtp_acceptance_rate_percent"), 100);
}

}  // namespace
}  // namespace ballast::testing
