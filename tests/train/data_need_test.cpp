// SPDX-License-Identifier: Apache-2.0
#include "train/data_need.h"

#include <gtest/gtest.h>

namespace ballast {
namespace {

/// A first step of 100 seconds, then ten that use 2000 tokens in half a second each: 4000 tokens/s.
DataNeed measured_need() {
  DataNeed need;
  need.add_step(2000, 100);
  for (int step = 0; step < DataNeed::kMeasuredSteps; ++step) {
    EXPECT_EQ(need.line(1e6), std::nullopt);
    need.add_step(2000, 0.5);
  }
  return need;
}

TEST(DataNeed, SpeaksOnceAndLeavesTheFirstStepOut) {
  DataNeed need = measured_need();
  EXPECT_EQ(need.line(std::nullopt), std::nullopt);
  EXPECT_EQ(need.line(8.9e6), "data: 8.9M tokens/s ready, the step needs 4.0k tokens/s");
  EXPECT_EQ(need.line(8.9e6), std::nullopt);
}

TEST(DataNeed, SaysWhenTheStepsWait) {
  EXPECT_EQ(measured_need().line(950.0),
            "data: 950 tokens/s ready, the step needs 4.0k tokens/s; the steps wait for data: tokenize beforehand "
            "(tokenize_train_data=false)");
}

}  // namespace
}  // namespace ballast
