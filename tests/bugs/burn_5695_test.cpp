// SPDX-License-Identifier: Apache-2.0
// The last short accumulation window, and a schedule stepped a micro-batch: tracel-ai/burn#5695,
// NVIDIA-NeMo/Automodel#2257, huggingface/accelerate#963.
#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

TEST(Burn5695, ARestThatFillsNoStepIsNamedAndTheScheduleMovesOncePerStep) {
  const ProgramFolder folder;
  std::vector<Ids> rows;
  for (int i = 0; i < 7; ++i) rows.push_back(some_ids(20, i));
  write_documents(folder, "data/train.jsonl", rows);
  const Words keys = {"packing=false", "per_device_batch_size=1", "gradient_accumulation_steps=3",
                      "steps=8",       "warmup_steps_fraction=1", "learning_rate=0.008"};
  const ProgramResult result = folder.run(tiny_run(document_keys(keys)));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto records = read_records(folder.path() / "out/t/metrics.jsonl", "train");
  // Warmup over all 8 steps, from 0: step k has k / 8 of the peak.
  EXPECT_EQ(series(records, "learning/current_learning_rate"), (std::vector<double>{0, 0.001}));
  EXPECT_EQ(series(records, "learning/total_weights"), (std::vector<double>{3 * 19, 3 * 19}));
  EXPECT_NE(result.err.find("ends after 7 rows; left out, because they fill no batch of 3 rows: 1 (tokens: 20)"),
            std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("the training data ended after 2 of 8 steps"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace ballast::testing
