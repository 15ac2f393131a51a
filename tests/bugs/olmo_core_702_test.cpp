// SPDX-License-Identifier: Apache-2.0
// z-loss in the cross-entropy although it is switched off: allenai/OLMo-core#702.
#include <cmath>

#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

TEST(OlmoCore702, MultiplierZeroIsPlainCrossEntropyInEveryPath) {
  const Ids row = some_ids(17);
  const ProgramFolder folder;
  const std::vector<float> logits = probe(folder, 1, Ids(row.begin(), row.end() - 1), Ids(16, 1)).at("logits");
  double cross_entropy = 0;  // the last position has a target in the run
  for (size_t t = 0; t < 16; ++t) {
    double sum = 0;
    for (size_t v = 0; v < 128; ++v) sum += std::exp(static_cast<double>(logits[t * 128 + v]));
    cross_entropy += (std::log(sum) - logits[t * 128 + static_cast<size_t>(row[t + 1])]) / 16;
  }
  for (const char* multiplier : {"z_loss_multiplier=0", "z_loss_multiplier=0.1"}) {
    for (const char* tiling : {"num_vocab_tiling=1", "num_vocab_tiling=4"}) {
      const ProgramFolder run;
      write_recorded(run.path() / "rows.safetensors", 1, 16, row, Ids(17, 1));
      const Words keys = {"dataset_type=recorded",
                          "recorded_batches_path=rows.safetensors",
                          "max_target_length=16",
                          "per_device_batch_size=1",
                          multiplier,
                          tiling};
      const auto records = records_of(run, golden_llama_run("train", keys));
      ASSERT_EQ(records.size(), 1U);
      const double lm_loss = records[0].at("learning/lm_loss"), loss = records[0].at("learning/loss");
      EXPECT_NEAR(lm_loss / cross_entropy, 1.0, 1e-6) << multiplier << " " << tiling;
      if (std::string(multiplier) == "z_loss_multiplier=0") {
        EXPECT_EQ(records[0].at("learning/z_loss"), 0.0);
        EXPECT_NEAR(loss / lm_loss, 1.0, 1e-7) << tiling;  // two sums of the same numbers, one in fp32
      } else {
        EXPECT_GT(loss, lm_loss + 1);  // logZ is above 4.8
      }
    }
  }
}

}  // namespace
}  // namespace ballast::testing
