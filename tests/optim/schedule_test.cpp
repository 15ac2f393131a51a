// SPDX-License-Identifier: Apache-2.0
#include "optim/schedule.h"

#include <gtest/gtest.h>

#include <vector>

#include "config/config.h"

namespace ballast {
namespace {

/// 20 schedule steps, 4 of warmup, peak 1e-3, final rate 1e-4.
ScheduleSpec twenty_steps(ScheduleKind kind) {
  ScheduleSpec spec;
  spec.kind = kind;
  spec.learning_rate = 1e-3;
  spec.schedule_steps = 20;
  spec.warmup_steps_fraction = 0.2;
  spec.learning_rate_final_fraction = 0.1;
  spec.wsd_decay_steps_fraction = 0.25;
  return spec;
}

/// `expected` is in units of 1e-3, from an independent program in float64.
void expect_rates(const ScheduleSpec& spec, const std::vector<double>& expected) {
  for (size_t step = 0; step < expected.size(); ++step) {
    const double rate = learning_rate_at(spec, static_cast<int64_t>(step));
    EXPECT_NEAR(rate, expected[step] * 1e-3, 1e-9 * expected[step] * 1e-3) << "step " << step;
  }
}

const std::vector<double> kCosineTail = {1,
                                         0.990166420330213,
                                         0.96109545593917,
                                         0.914057647468726,
                                         0.851108772861486,
                                         0.775,
                                         0.689057647468726,
                                         0.597037808470444,
                                         0.502962191529556,
                                         0.410942352531274,
                                         0.325,
                                         0.248891227138514,
                                         0.185942352531274,
                                         0.13890454406083,
                                         0.109833579669787,
                                         0.1,
                                         0,
                                         0,
                                         0,
                                         0};

std::vector<double> joined(std::vector<double> head, const std::vector<double>& tail) {
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

TEST(Schedule, CosineWarmsUpFromZeroAndEndsAtTheFinalRate) {
  expect_rates(twenty_steps(ScheduleKind::kCosine), joined({0, .25, .5, .75}, kCosineTail));
}

TEST(Schedule, OlmoCosineCountsStepsFromOneAndStaysAtTheFinalRate) {
  // OLMo-core's CosWithWarmup at 1, 2, ... with 20 steps, of which 4 warm up.
  const ScheduleSpec spec = twenty_steps(ScheduleKind::kOlmoCosine);
  const auto expect_rate = [&](int64_t step, double expected) {
    EXPECT_NEAR(learning_rate_at(spec, step), expected * 1e-3, 1e-12) << "step " << step;
  };
  for (int64_t step = 0; step < 4; ++step) expect_rate(step, 0.25 * static_cast<double>(step + 1));
  expect_rate(4, 0.991353376);
  expect_rate(5, 0.965745790);
  expect_rate(6, 0.924161326);
  expect_rate(18, 0.108646624);
  for (const int64_t step : {19, 20, 100}) expect_rate(step, 0.1);
}

TEST(Schedule, WarmupStepOffsetMovesOnlyTheWarmup) {
  ScheduleSpec spec = twenty_steps(ScheduleKind::kCosine);
  spec.warmup_step_offset = 1;
  expect_rates(spec, joined({.25, .5, .75, 1}, kCosineTail));
}

TEST(Schedule, WarmupNeverPassesThePeak) {
  ScheduleSpec spec = twenty_steps(ScheduleKind::kCosine);
  spec.warmup_step_offset = 3;
  expect_rates(spec, joined({.75, 1, 1, 1}, kCosineTail));
}

TEST(Schedule, WsdHoldsThePeakAndFallsLinearly) {
  expect_rates(twenty_steps(ScheduleKind::kWsd),
               {0, .25, .5, .75, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, .775, .55, .325, .1, 0, 0, 0, 0});
}

TEST(Schedule, WsdFallsAlongACosine) {
  ScheduleSpec spec = twenty_steps(ScheduleKind::kWsd);
  spec.wsd_decay_style = DecayStyle::kCosine;
  expect_rates(spec,
               {0, .25, .5, .75, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0.868198051533946, .55, 0.231801948466054, .1, 0});
}

TEST(Schedule, DecayOfOneStepSitsAtTheFinalRate) {
  for (const DecayStyle style : {DecayStyle::kLinear, DecayStyle::kCosine}) {
    ScheduleSpec spec = twenty_steps(ScheduleKind::kWsd);
    spec.wsd_decay_steps_fraction = 0.05;
    spec.wsd_decay_style = style;
    EXPECT_DOUBLE_EQ(learning_rate_at(spec, 18), 1e-3);
    EXPECT_DOUBLE_EQ(learning_rate_at(spec, 19), 1e-4);
  }
}

TEST(Schedule, CosineOfOneStepSitsAtTheFinalRate) {
  ScheduleSpec spec = twenty_steps(ScheduleKind::kCosine);
  spec.warmup_steps_fraction = 0.95;
  EXPECT_NEAR(learning_rate_at(spec, 18), 1e-3 * 18 / 19, 1e-15);
  EXPECT_DOUBLE_EQ(learning_rate_at(spec, 19), 1e-4);
}

TEST(Schedule, WarmupLengthIsTheWholePartOfTheDoubleProduct) {
  ScheduleSpec spec = twenty_steps(ScheduleKind::kWsd);
  spec.schedule_steps = 100;
  spec.warmup_steps_fraction = 0.29;  // 100 * 0.29 is 28.999999999999996
  EXPECT_NEAR(learning_rate_at(spec, 27), 1e-3 * 27 / 28, 1e-15);
  EXPECT_DOUBLE_EQ(learning_rate_at(spec, 28), 1e-3);
}

TEST(Schedule, TakesEveryKeyOfTheConfiguration) {
  Config config;
  config.lr_schedule_type = "wsd";
  config.learning_rate = 1e-3;
  config.learning_rate_schedule_steps = 20;
  config.warmup_steps_fraction = 0.2;
  config.warmup_step_offset = 1;
  config.learning_rate_final_fraction = 0.1;
  config.wsd_decay_steps_fraction = 0.25;
  config.wsd_decay_style = "cosine";
  expect_rates(schedule_spec(config),
               {.25, .5, .75, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0.868198051533946, .55, 0.231801948466054, .1, 0});
}

TEST(Schedule, WithoutWarmupTheFirstRateIsThePeak) {
  ScheduleSpec spec = twenty_steps(ScheduleKind::kCosine);
  spec.warmup_steps_fraction = 0;
  EXPECT_DOUBLE_EQ(learning_rate_at(spec, 0), 1e-3);
}

}  // namespace
}  // namespace ballast
