// SPDX-License-Identifier: Apache-2.0
#include "metrics/number.h"

#include <gtest/gtest.h>

#include <limits>

namespace ballast {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(FixedNumber, RoundsToTheGivenDigits) {
  EXPECT_EQ(fixed(3.14159, 3), "3.142");
  EXPECT_EQ(fixed(-0.0004, 3), "-0.000");
  EXPECT_EQ(fixed(8192, 0), "8192");
  EXPECT_EQ(fixed(1e20, 1), "100000000000000000000.0");
}

TEST(FixedNumber, NamesValuesThatAreNotFiniteWithoutASignOfNan) {
  EXPECT_EQ(fixed(kNan, 3), "nan");
  EXPECT_EQ(fixed(-kNan, 3), "nan");
  EXPECT_EQ(fixed(kInf, 3), "inf");
  EXPECT_EQ(fixed(-kInf, 3), "-inf");
}

// Expected texts: what Python's repr(float) prints.
TEST(ShortestNumber, LooksLikePythonsRepr) {
  EXPECT_EQ(shortest(8192), "8192.0");
  EXPECT_EQ(shortest(0), "0.0");
  EXPECT_EQ(shortest(0.1), "0.1");
  EXPECT_EQ(shortest(1.0 / 3), "0.3333333333333333");
  EXPECT_EQ(shortest(0.0001), "0.0001");
  EXPECT_EQ(shortest(0.00001), "1e-05");
  EXPECT_EQ(shortest(1.5e-7), "1.5e-07");
  EXPECT_EQ(shortest(100000), "100000.0");
  EXPECT_EQ(shortest(1e16), "1e+16");
  EXPECT_EQ(shortest(-2.5), "-2.5");
}

TEST(ShortestNumber, ReadsBackAsTheSameDouble) {
  for (const double value : {3.0000000000000004, 2.2250738585072014e-308, 1.7976931348623157e308, 0.1 + 0.2}) {
    EXPECT_EQ(std::stod(shortest(value)), value);
  }
}

TEST(ZeroPaddedNumber, KeepsLongerNumbersWhole) {
  EXPECT_EQ(zero_padded(42, 6), "000042");
  EXPECT_EQ(zero_padded(1234567, 6), "1234567");
}

TEST(ShortCount, TakesTheUnitThatFits) {
  EXPECT_EQ(short_count(987.4), "987");
  EXPECT_EQ(short_count(1000), "1.0k");
  EXPECT_EQ(short_count(12345), "12.3k");
  EXPECT_EQ(short_count(4.5e6), "4.5M");
}

}  // namespace
}  // namespace ballast
