// SPDX-License-Identifier: Apache-2.0
#include "ops/rope.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "errors/errors.h"
#include "ops/gradcheck.h"

namespace ballast {
namespace {

RopeSpec rope_of(int64_t rotary_dim, bool is_interleaved = false) {
  RopeSpec rope;
  rope.rotary_dim = rotary_dim;
  rope.is_interleaved = is_interleaved;
  return rope;
}

at::Tensor positions(int64_t rows, int64_t length) {
  return at::arange(length).expand({rows, length});
}

TEST(Rope, TurnsPairsByPositionTimesFrequency) {
  // theta 10000, 4 rotating channels: frequencies 1 and 0.01. Position 2: angles 2 and 0.02.
  const at::Tensor x = at::tensor({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, at::kDouble).view({1, 1, 1, 6});
  const at::Tensor position = at::full({1, 1}, 2, at::kLong);
  const RopeSpec half = rope_of(4), pairs = rope_of(4, true);
  const at::Tensor y = apply_rope(x, rope_table(position, half, at::kDouble), half).flatten();
  EXPECT_NEAR(y[0].item<double>(), 1 * std::cos(2.0) - 3 * std::sin(2.0), 1e-14);
  EXPECT_NEAR(y[2].item<double>(), 3 * std::cos(2.0) + 1 * std::sin(2.0), 1e-14);
  EXPECT_NEAR(y[1].item<double>(), 2 * std::cos(0.02) - 4 * std::sin(0.02), 1e-14);
  EXPECT_NEAR(y[3].item<double>(), 4 * std::cos(0.02) + 2 * std::sin(0.02), 1e-14);
  EXPECT_EQ(y[4].item<double>(), 5);
  EXPECT_EQ(y[5].item<double>(), 6);
  const at::Tensor z = apply_rope(x, rope_table(position, pairs, at::kDouble), pairs).flatten();
  EXPECT_NEAR(z[0].item<double>(), 1 * std::cos(2.0) - 2 * std::sin(2.0), 1e-14);
  EXPECT_NEAR(z[1].item<double>(), 2 * std::cos(2.0) + 1 * std::sin(2.0), 1e-14);
  EXPECT_NEAR(z[3].item<double>(), 4 * std::cos(0.02) + 3 * std::sin(0.02), 1e-14);
}

TEST(Rope, GradientsMatchFiniteDifferences) {
  for (const bool is_interleaved : {false, true}) {
    for (const int64_t rotary_dim : {4, 8}) {
      RopeSpec rope = rope_of(rotary_dim, is_interleaved);
      rope.attention_factor = 1.3;
      const RopeTable table = rope_table(positions(2, 3), rope, at::kDouble);
      EXPECT_LT(
          gradient_error([&](const auto& in) { return apply_rope(in[0], table, rope); }, {normal({2, 3, 2, 8}, 1)}),
          1e-8);
    }
  }
}

// The same channels in the middle of a wider head: the others pass through, forwards and backwards, in the kernel and
// by tensor operations.
TEST(Rope, RotatesFromTheChannelItIsGiven) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    for (const bool is_interleaved : {false, true}) {
      const RopeSpec rope = rope_of(4, is_interleaved);
      const RopeTable table = rope_table(positions(2, 3), rope, type);
      const at::Tensor x = normal({2, 3, 2, 9}, 4, type).set_requires_grad(true);
      const at::Tensor y = apply_rope(x, table, rope, 3);
      EXPECT_TRUE(at::equal(y.narrow(3, 3, 4), apply_rope(x.narrow(3, 3, 4), table, rope)));
      EXPECT_TRUE(at::equal(y.narrow(3, 0, 3), x.narrow(3, 0, 3)));
      EXPECT_TRUE(at::equal(y.narrow(3, 7, 2), x.narrow(3, 7, 2)));
      const at::Tensor g = normal({2, 3, 2, 9}, 5, type);
      const at::Tensor d = torch::autograd::grad({y}, {x}, {g})[0];
      EXPECT_TRUE(at::equal(d.narrow(3, 0, 3), g.narrow(3, 0, 3)));
      EXPECT_TRUE(at::equal(d.narrow(3, 7, 2), g.narrow(3, 7, 2)));
      const at::Tensor back = apply_rope(d.detach(), table, rope, 3);
      EXPECT_LE(relative_error(back, g), type == at::kBFloat16 ? 2e-2 : 1e-6);
    }
  }
  const RopeSpec rope = rope_of(4);
  const RopeTable table = rope_table(positions(2, 3), rope, at::kDouble);
  EXPECT_LT(
      gradient_error([&](const auto& in) { return apply_rope(in[0], table, rope, 2); }, {normal({2, 3, 2, 7}, 1)}),
      1e-8);
  EXPECT_THROW(apply_rope(normal({2, 3, 2, 7}, 1), table, rope, 4), ShapeError);
}

TEST(Rope, DotProductsDependOnDistanceOnly) {
  const RopeSpec rope = rope_of(8);
  const at::Tensor q = normal({1, 1, 1, 8}, 1), k = normal({1, 1, 1, 8}, 2);
  const auto dot = [&](int64_t at_q, int64_t at_k) {
    const auto turned = [&](const at::Tensor& x, int64_t position) {
      return apply_rope(x, rope_table(at::full({1, 1}, position, at::kLong), rope, at::kDouble), rope);
    };
    return (turned(q, at_q) * turned(k, at_k)).sum().item<double>();
  };
  EXPECT_NEAR(dot(7, 3), dot(104, 100), 1e-12);
}

TEST(Rope, AnglesAreFp32AsTrained) {
  // Position 100000 times float32(10000^(-2/4)) = 0.01: the fp32 product is 1000 to the last place.
  const RopeTable table = rope_table(at::full({1, 1}, 100000, at::kLong), rope_of(4), at::kFloat);
  EXPECT_EQ(table.cos_BTR.scalar_type(), at::kFloat);
  EXPECT_NEAR(table.cos_BTR[0][0][1].item<double>(), std::cos(static_cast<double>(100000.0F * 0.01F)), 1e-6);
}

TEST(Rope, TableTypeFollowsTheSpec) {
  RopeSpec rope = rope_of(4);
  EXPECT_EQ(rope_table(positions(1, 2), rope, at::kBFloat16).cos_BTR.scalar_type(), at::kBFloat16);
  rope.multiplies_in_fp32 = true;
  const RopeTable table = rope_table(positions(1, 2), rope, at::kBFloat16);
  EXPECT_EQ(table.cos_BTR.scalar_type(), at::kFloat);
  const at::Tensor x = normal({1, 2, 1, 4}, 3, at::kBFloat16);
  const at::Tensor y = apply_rope(x, table, rope);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  // The product is fp32 and is rounded once.
  EXPECT_TRUE(at::equal(y, apply_rope(x.to(at::kFloat), table, rope).to(at::kBFloat16)));
}

TEST(Rope, RefusesATableOfAnotherBatch) {
  const RopeSpec rope = rope_of(4);
  const RopeTable table = rope_table(positions(2, 3), rope, at::kDouble);
  EXPECT_THROW(apply_rope(normal({2, 4, 1, 4}, 1), table, rope), ShapeError);
  EXPECT_THROW(apply_rope(normal({2, 3, 1, 2}, 1), table, rope), ShapeError);
}

}  // namespace
}  // namespace ballast
