// SPDX-License-Identifier: Apache-2.0
#include "train/profiler.h"

#include <gtest/gtest.h>

#include <string>

namespace ballast {
namespace {

/// One letter a step: [ a trace starts, ] it ends, * both, . neither.
std::string edges(const ProfileWindows& windows, int64_t num_steps) {
  std::string text;
  for (int64_t step = 0; step < num_steps; ++step) {
    const bool starts = windows.starts_at(step), ends = windows.ends_after(step);
    text += starts && ends ? '*' : starts ? '[' : ends ? ']' : '.';
  }
  return text;
}

TEST(ProfileWindows, CoverTheAskedSteps) {
  EXPECT_EQ(edges({.first_step = 1, .num_steps = 5, .period = -1, .end_step = 10}, 12), ".[...]......");
  EXPECT_EQ(edges({.first_step = 0, .num_steps = 1, .period = 0, .end_step = 4}, 4), "*...");
  EXPECT_EQ(edges({.first_step = 1, .num_steps = 2, .period = 4, .end_step = 12}, 12), ".[]..[]..[].");
  EXPECT_EQ(edges({.first_step = 0, .num_steps = 2, .period = 2, .end_step = 6}, 6), "[][][]");
}

TEST(ProfileWindows, EndWithTheRun) {
  EXPECT_EQ(edges({.first_step = 3, .num_steps = 5, .period = 0, .end_step = 6}, 8), "...[.]..");
  EXPECT_EQ(edges({.first_step = 1, .num_steps = 2, .period = 3, .end_step = 5}, 6), ".[].*.");
  EXPECT_EQ(edges({.first_step = 7, .num_steps = 2, .period = 0, .end_step = 6}, 9), ".........");
  EXPECT_EQ(edges({}, 4), "....") << "no profiler";
}

}  // namespace
}  // namespace ballast
