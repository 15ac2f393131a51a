// SPDX-License-Identifier: Apache-2.0
// A warmup as long as the run: mosaicml/composer#1077.
#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

TEST(Composer1077, TheWarmupEndsOneStepBelowThePeakOrAtIt) {
  for (const int offset : {0, 1}) {
    for (const char* type : {"lr_schedule_type=cosine", "lr_schedule_type=wsd"}) {
      const ProgramFolder folder;
      const auto records =
          records_of(folder, tiny_run({"steps=4", "warmup_steps_fraction=1.0", "wsd_decay_steps_fraction=0",
                                       "learning_rate=4e-3", "warmup_step_offset=" + std::to_string(offset), type}));
      ASSERT_EQ(records.size(), 4U);
      for (int step = 0; step < 4; ++step) {
        EXPECT_NEAR(records[static_cast<size_t>(step)].at("learning/current_learning_rate").get<double>(),
                    1e-3 * (step + offset), 1e-15)
            << type;
      }
    }
  }
}

}  // namespace
}  // namespace ballast::testing
