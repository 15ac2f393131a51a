// SPDX-License-Identifier: Apache-2.0
// A warmup or decay of no steps: pytorch/torchtitan#1010, allenai/OLMo-core#655.
#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

std::vector<double> rates(const Words& more) {
  const ProgramFolder folder;
  return series(records_of(folder, tiny_run(joined({"learning_rate=1e-3"}, more))), "learning/current_learning_rate");
}

TEST(TorchTitan1010, APhaseOfNoStepsIsNoPhase) {
  const std::vector<double> flat(4, 1e-3);
  EXPECT_EQ(rates({"steps=4", "lr_schedule_type=wsd", "warmup_steps_fraction=0", "wsd_decay_steps_fraction=0"}), flat);
  const std::vector<double> cosine = rates({"steps=4", "warmup_steps_fraction=0", "learning_rate_final_fraction=0.1"});
  ASSERT_EQ(cosine.size(), 4U);
  // The cosine at 0, 1/3, 2/3 and 1 of its way: 1, 0.75, 0.25, 0 of the distance to the final rate.
  const std::vector<double> expected = {1e-3, 7.75e-4, 3.25e-4, 1e-4};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(cosine[i], expected[i], 1e-15);
}

TEST(TorchTitan1010, ARunOfOneStepHasAFiniteRate) {
  EXPECT_EQ(rates({"steps=1", "lr_schedule_type=wsd", "wsd_decay_steps_fraction=0"}), std::vector<double>{1e-3});
  EXPECT_EQ(rates({"steps=1", "warmup_steps_fraction=1"}), std::vector<double>{0});
  // A decay of one step sits at its end.
  EXPECT_NEAR(rates({"steps=1", "warmup_steps_fraction=0", "learning_rate_final_fraction=0.1"}).at(0), 1e-4, 1e-18);
}

}  // namespace
}  // namespace ballast::testing
