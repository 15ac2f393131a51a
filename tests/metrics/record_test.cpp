// SPDX-License-Identifier: Apache-2.0
#include "metrics/record.h"

#include <gtest/gtest.h>

namespace ballast {
namespace {

TEST(Record, KeepsTheOrderInWhichTagsWereFirstSet) {
  Record record;
  record.set("b", 1);
  record.set("a", 2);
  record.set("b", 3);
  ASSERT_EQ(record.scalars.size(), 2u);
  EXPECT_EQ(record.scalars[0], (std::pair<std::string, double>("b", 3)));
  EXPECT_EQ(record.scalars[1], (std::pair<std::string, double>("a", 2)));
}

TEST(Record, GivesNothingForATagThatWasNotSet) {
  Record record;
  record.set("learning/loss", 0);
  EXPECT_EQ(record.get("learning/loss"), 0.0);
  EXPECT_FALSE(record.get("learning/lm_loss").has_value());
}

}  // namespace
}  // namespace ballast
