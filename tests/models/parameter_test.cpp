// SPDX-License-Identifier: Apache-2.0
#include "models/parameter.h"

#include <gtest/gtest.h>

#include "models/unit_builder.h"
#include "support/tiny_model.h"

namespace ballast {
namespace {

using testing::test_precision;

UnitPtr make_unit(const std::vector<ParameterSpec>& specs, const Precision& precision = {}) {
  return c10::make_intrusive<ParameterUnit>("unit", specs, std::vector<Buffer>{}, precision, single_rank_world(),
                                            at::Device(at::kCPU));
}

TEST(ParameterUnit, SinksAddUpOverBackwardPasses) {
  const UnitPtr unit = make_unit({{.name = "w", .shape = {2}, .initializer = Initializer::kOnes}});
  initialize_parameters({unit}, 0);
  const at::Tensor x = at::tensor({3.0f, 5.0f});
  for (int i = 0; i < 3; ++i) (unit->gather()[0] * x).sum().backward();
  EXPECT_TRUE(at::equal(unit->parameters()[0].gradient, at::tensor({9.0f, 15.0f})));
  EXPECT_FALSE(unit->parameters()[0].master.grad().defined()) << "gradients leave autograd in the sink";
}

TEST(ParameterUnit, AGradientHeldElsewhereIsCopiedNotTaken) {
  const UnitPtr unit = make_unit({{.name = "w", .shape = {2}}});
  const at::Tensor held = at::tensor({1.0f, 2.0f});
  const at::Tensor also_held = held;  // one holder beside the argument is what autograd's own list looks like
  unit->add_gradient(0, held);
  unit->add_gradient(0, held);
  EXPECT_TRUE(at::equal(held, at::tensor({1.0f, 2.0f})));
  EXPECT_TRUE(at::equal(unit->parameters()[0].gradient, at::tensor({2.0f, 4.0f})));
}

TEST(ParameterUnit, FrozenParametersGetNoGradient) {
  const UnitPtr unit = make_unit({{.name = "a", .shape = {2}, .initializer = Initializer::kOnes},
                                  {.name = "b", .shape = {2}, .initializer = Initializer::kOnes}});
  initialize_parameters({unit}, 0);
  unit->parameters()[0].is_trainable = false;
  unit->parameters()[0].master.set_requires_grad(false);
  const auto weights = unit->gather();
  EXPECT_FALSE(weights[0].requires_grad());
  (weights[0] * weights[1]).sum().backward();
  EXPECT_FALSE(unit->parameters()[0].gradient.defined());
  EXPECT_TRUE(unit->parameters()[1].gradient.defined());
}

TEST(ParameterUnit, LookupAddsIntoTheRowsOfTheSink) {
  const UnitPtr unit = make_unit({{.name = "table", .shape = {4, 2}, .initializer = Initializer::kOnes}});
  initialize_parameters({unit}, 0);
  at::Tensor anchor = at::zeros({});
  anchor.set_requires_grad(true);
  const at::Tensor index = at::tensor({2, 0, 2}, at::kLong);
  const at::Tensor factor = at::tensor({1.0f, 10.0f, 100.0f}).unsqueeze(1);
  (unit->lookup(0, index, anchor) * factor).sum().backward();
  EXPECT_TRUE(at::equal(unit->parameters()[0].gradient,
                        at::tensor({10.0f, 10.0f, 0.0f, 0.0f, 101.0f, 101.0f, 0.0f, 0.0f}).view({4, 2})));
}

TEST(ParameterUnit, CopiesFollowTheMasterOnceTheyAreDropped) {
  const Precision precision{
      .activation = at::kBFloat16, .weight = at::kFloat, .product = at::kFloat, .master = at::kFloat};
  const UnitPtr unit = make_unit({{.name = "w", .shape = {1}, .initializer = Initializer::kOnes}}, precision);
  initialize_parameters({unit}, 0);
  const at::NoGradGuard no_grad;
  unit->parameters()[0].master.fill_(1.0 + 1.0 / 512);  // bf16 keeps 8 bits: rounds to 1
  EXPECT_EQ(unit->gather()[0].item<float>(), 1.0f);
  unit->parameters()[0].master.fill_(3.0);
  EXPECT_EQ(unit->gather()[0].item<float>(), 1.0f) << "a copy serves all micro-batches of a step";
  unit->drop_copies();
  EXPECT_EQ(unit->gather()[0].item<float>(), 3.0f);
}

TEST(ParameterUnit, BuffersAreNoParametersAndKeepTheirType) {
  UnitBuilder builder("model.layers.0.", 1.0);
  builder.matrix("mlp.gate", 3, 2);
  EXPECT_EQ(builder.buffer("mlp.gate.bias_correction", at::zeros({3})), 0);
  EXPECT_EQ(builder.buffer("mlp.table", at::arange(4)), 1);
  const auto unit = c10::make_intrusive<ParameterUnit>("unit", builder.specs(), builder.buffers(),
                                                       Precision{.activation = at::kBFloat16}, single_rank_world(),
                                                       at::Device(at::kCPU));
  ASSERT_EQ(unit->parameters().size(), 1U);
  ASSERT_EQ(unit->buffers().size(), 2U);
  EXPECT_EQ(unit->buffers()[0].name, "model.layers.0.mlp.gate.bias_correction");
  EXPECT_EQ(unit->buffers()[0].value.scalar_type(), at::kFloat);
  EXPECT_EQ(unit->buffers()[1].value.scalar_type(), at::kLong);
  EXPECT_EQ(unit->gather().size(), 1U);
}

TEST(InitializeParameters, DependsOnTheNameAndNotOnTheOrder) {
  const ParameterSpec a{.name = "a", .shape = {64, 48}}, b{.name = "b", .shape = {64, 48}};
  const UnitPtr first = make_unit({a, b}), second = make_unit({b, a});
  initialize_parameters({first}, 5);
  initialize_parameters({second}, 5);
  EXPECT_TRUE(at::equal(first->parameters()[0].master, second->parameters()[1].master));
  EXPECT_FALSE(at::equal(first->parameters()[0].master, first->parameters()[1].master));
  initialize_parameters({second}, 6);
  EXPECT_FALSE(at::equal(first->parameters()[0].master, second->parameters()[1].master));
}

TEST(InitializeParameters, HasTheDeviationItPromises) {
  const UnitPtr unit = make_unit({{.name = "m", .shape = {2000, 100}, .init_scale = 4.0},
                                  {.name = "e", .shape = {2000, 100}, .initializer = Initializer::kFanInNormal}});
  initialize_parameters({unit}, 1);
  const at::Tensor matrix = unit->parameters()[0].master, table = unit->parameters()[1].master;
  // 200,000 draws: the deviation of a sample deviation is 0.16 %.
  EXPECT_NEAR(matrix.std().item<double>(), 0.2, 0.002);
  EXPECT_LE(matrix.abs().max().item<double>(), 2 * 0.2 / 0.87962566103423978 + 1e-6) << "cut at two sigmas";
  EXPECT_NEAR(table.std().item<double>(), 0.1, 0.001);
  EXPECT_GT(table.abs().max().item<double>(), 0.35) << "not cut";
}

}  // namespace
}  // namespace ballast
