// SPDX-License-Identifier: Apache-2.0
#include "optim/spike_guard.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "errors/errors.h"

namespace ballast {
namespace {

constexpr double kGuardNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kGuardInf = std::numeric_limits<double>::infinity();

std::vector<bool> accepted(SpikeGuard& guard, const std::vector<double>& losses, double grad_norm = 1) {
  std::vector<bool> result;
  for (const double loss : losses) result.push_back(guard.accepts(loss, grad_norm));
  return result;
}

TEST(SpikeGuard, SequenceOfTheTestPoint) {
  SpikeGuard guard({.interval = 4, .scaling_factor = 2});
  EXPECT_EQ(accepted(guard, {3, 2.9, 3.1, 3, 9, 3}), (std::vector<bool>{true, true, false, true, false, true}));
}

TEST(SpikeGuard, NormsAreJudgedLikeLosses) {
  SpikeGuard guard({.interval = 4, .scaling_factor = 2});
  std::vector<bool> result;
  for (const double norm : {3.0, 2.9, 3.1, 3.0, 9.0, 3.0}) result.push_back(guard.accepts(1, norm));
  EXPECT_EQ(result, (std::vector<bool>{true, true, false, true, false, true}));
}

TEST(SpikeGuard, DeviationOfOneValueIsZero) {
  SpikeGuard guard({.interval = 2, .scaling_factor = 1000});
  EXPECT_EQ(accepted(guard, {1, 1.0001}), (std::vector<bool>{true, false}));
}

TEST(SpikeGuard, NothingIsAnOutlierBeforeHalfTheInterval) {
  SpikeGuard guard({.interval = 8, .scaling_factor = 1});  // judged once three values are known
  EXPECT_EQ(accepted(guard, {1, 50, 2, 60}), (std::vector<bool>{true, true, true, false}));
}

// mean of {1, 2, 3} is 2, std 1: the limit of factor 2 is 4, which is still in.
TEST(SpikeGuard, TheLimitItselfPasses) {
  SpikeGuard at_limit({.interval = 8, .scaling_factor = 2}), above({.interval = 8, .scaling_factor = 2});
  EXPECT_EQ(accepted(at_limit, {1, 2, 3, 4}).back(), true);
  EXPECT_EQ(accepted(above, {1, 2, 3, 4.001}).back(), false);
}

TEST(SpikeGuard, ANewLevelIsAcceptedInTheEnd) {
  SpikeGuard guard({.interval = 4, .scaling_factor = 2});
  accepted(guard, {3, 3, 3, 3});
  EXPECT_EQ(accepted(guard, {9, 9}), (std::vector<bool>{false, true}));  // {3, 3, 3, 9}: 9 - 4.5 <= 2 * 3
}

TEST(SpikeGuard, ValuesThatAreNotFiniteAreRefusedAndForgotten) {
  SpikeGuard with({.interval = 4, .scaling_factor = 2}), without({.interval = 4, .scaling_factor = 2});
  EXPECT_FALSE(with.accepts(kGuardNaN, 1));
  EXPECT_FALSE(with.accepts(1, kGuardInf));
  accepted(with, {3, 2.9});
  EXPECT_FALSE(with.accepts(3, kGuardNaN));
  accepted(without, {3, 2.9});
  EXPECT_EQ(with.state(), without.state());
}

TEST(SpikeGuard, LoadedStateDecidesTheSame) {
  SpikeGuard whole({.interval = 4, .scaling_factor = 2});
  accepted(whole, {3, 2.9, 3.1});
  SpikeGuard resumed({.interval = 4, .scaling_factor = 2});
  resumed.load_state(nlohmann::json::parse(whole.state().dump()));
  EXPECT_EQ(accepted(whole, {3, 9, 3}), accepted(resumed, {3, 9, 3}));
  EXPECT_EQ(whole.state(), resumed.state());

  SpikeGuard shorter({.interval = 2, .scaling_factor = 2});
  shorter.load_state(whole.state());
  EXPECT_EQ(shorter.state().at("losses"), (std::vector<double>{9, 3}));
}

TEST(SpikeGuard, AStateThatIsNoneIsACheckpointError) {
  SpikeGuard guard({});
  EXPECT_THROW(guard.load_state(nlohmann::json::object()), CheckpointError);
  EXPECT_THROW(guard.load_state({{"losses", {1, 2}}, {"grad_norms", {1}}}), CheckpointError);
  EXPECT_THROW(guard.load_state({{"losses", "x"}, {"grad_norms", "y"}}), CheckpointError);
}

}  // namespace
}  // namespace ballast
