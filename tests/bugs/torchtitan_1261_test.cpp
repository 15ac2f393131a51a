// SPDX-License-Identifier: Apache-2.0
// A first step at rate 0, or a last rate that is never reached: pytorch/torchtitan#1261, meta-pytorch/torchtune#2010.
#include <cmath>
#include <numbers>

#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

// Ten steps, four of warmup to 1e-3, then a cosine over six whose last step sits at a tenth of the peak.
TEST(TorchTitan1261, EveryPrintedRateFollowsTheFormula) {
  for (const int offset : {0, 1}) {
    const ProgramFolder folder;
    const auto records = records_of(
        folder, tiny_run({"steps=10", "warmup_steps_fraction=0.4", "learning_rate=1e-3",
                          "learning_rate_final_fraction=0.1", "warmup_step_offset=" + std::to_string(offset)}));
    ASSERT_EQ(records.size(), 10U);
    for (int step = 0; step < 10; ++step) {
      const double share =
          step < 4 ? (step + offset) / 4.0 : 0.1 + 0.9 * 0.5 * (1 + std::cos(std::numbers::pi * (step - 4) / 5));
      EXPECT_NEAR(records[static_cast<size_t>(step)].at("learning/current_learning_rate").get<double>(), 1e-3 * share,
                  1e-12)
          << "offset " << offset << " step " << step;
    }
    EXPECT_NEAR(records[9].at("learning/current_learning_rate").get<double>(), 1e-4, 1e-15);
    // The synthetic batch is the same in every step: equal weights give an equal loss.
    const std::vector<double> losses = series(records, "learning/loss"), norms = series(records, "learning/param_norm");
    EXPECT_EQ(losses[0] == losses[1], offset == 0) << "rate 0 moves nothing, any other rate does";
    EXPECT_NE(norms[0], norms[1]);
  }
}

}  // namespace
}  // namespace ballast::testing
