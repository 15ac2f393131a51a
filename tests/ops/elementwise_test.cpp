// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "errors/errors.h"
#include "ops/activation.h"
#include "ops/gradcheck.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"

namespace ballast {
namespace {

const std::vector<NormForm> kNormForms = {NormForm::kCastThenScale, NormForm::kScaleThenCast, NormForm::kOnePlusScale};
const std::vector<Activation> kActivations = {Activation::kSilu, Activation::kGeluTanh, Activation::kGelu,
                                              Activation::kRelu, Activation::kLinear};

TEST(RmsNorm, MatchesHandCalculation) {
  // mean(x^2) = (9 + 16) / 2 = 12.5; epsilon 0.5: sqrt(13) = 3.605551275.
  const at::Tensor x = at::tensor({3.0, 4.0}, at::kDouble), weight = at::tensor({2.0, -1.0}, at::kDouble);
  const at::Tensor plain = rms_norm(x, weight, NormForm::kCastThenScale, 0.5);
  EXPECT_NEAR(plain[0].item<double>(), 6 / 3.605551275463989, 1e-14);
  EXPECT_NEAR(plain[1].item<double>(), -4 / 3.605551275463989, 1e-14);
  const at::Tensor one_plus = rms_norm(x, weight, NormForm::kOnePlusScale, 0.5);
  EXPECT_NEAR(one_plus[0].item<double>(), 9 / 3.605551275463989, 1e-14);
  EXPECT_NEAR(one_plus[1].item<double>(), 0, 1e-14);
  EXPECT_NEAR(rms_norm(x, {}, NormForm::kCastThenScale, 0.5)[0].item<double>(), 3 / 3.605551275463989, 1e-14);
}

TEST(RmsNorm, GradientsMatchFiniteDifferences) {
  for (const NormForm form : kNormForms) {
    EXPECT_LT(gradient_error([&](const auto& in) { return rms_norm(in[0], in[1], form, 1e-3); },
                             {normal({2, 3, 5}, 1), normal({5}, 2)}),
              1e-8);
  }
  EXPECT_LT(gradient_error([](const auto& in) { return rms_norm(in[0], {}, NormForm::kScaleThenCast, 1e-3); },
                           {normal({4, 5}, 1)}),
            1e-8);
}

TEST(RmsNorm, CastsToBf16WhereTheFormSays) {
  // x = [1, 1, 1, 1.75]: n = 1 / sqrt((3 + 3.0625) / 4) = 0.812277 = 207.943 / 256, in bf16 208 / 256.
  // w = 1.00736: cast first gives 209.53 / 256, hence 210 / 256; scale first gives 209.47 / 256, hence 209 / 256.
  const at::Tensor x = at::tensor({1.0F, 1.0F, 1.0F, 1.75F}).to(at::kBFloat16);
  const at::Tensor weight = at::full({4}, 1.00736, at::kFloat);
  const at::Tensor a = rms_norm(x, weight, NormForm::kCastThenScale, 0);
  EXPECT_EQ(a.scalar_type(), at::kBFloat16);
  EXPECT_EQ(a[0].item<float>(), 0.8203125F);
  EXPECT_EQ(rms_norm(x, weight, NormForm::kScaleThenCast, 0)[0].item<float>(), 0.81640625F);
}

TEST(RmsNorm, GivesTheWeightAGradientOfItsOwnType) {
  const at::Tensor x = normal({6, 8}, 3, at::kBFloat16), weight = at::ones({8}).set_requires_grad(true);
  const auto d = torch::autograd::grad({rms_norm(x, weight, NormForm::kCastThenScale, 1e-5)}, {weight},
                                       {at::ones({6, 8}, at::kBFloat16)});
  EXPECT_EQ(d[0].scalar_type(), at::kFloat);
  // With cotangent 1 it is the sum of the rounded n.
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor n = wide * (wide.square().mean(-1, true) + 1e-5).rsqrt();
  EXPECT_LT(relative_error(d[0], n.to(at::kBFloat16).to(at::kFloat).sum(0)), 1e-6);
}

TEST(RmsNorm, RefusesAWeightOfAnotherWidth) {
  EXPECT_THROW(rms_norm(normal({2, 4}, 1), normal({3}, 1), NormForm::kCastThenScale, 1e-5), ShapeError);
}

TEST(Activation, MatchesKnownValues) {
  const at::Tensor x = at::tensor({1.0, -2.0}, at::kDouble);
  EXPECT_NEAR(activation(x, Activation::kSilu)[0].item<double>(), 0.7310585786300049, 1e-15);
  EXPECT_NEAR(activation(x, Activation::kGelu)[0].item<double>(), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(activation(x, Activation::kGeluTanh)[0].item<double>(), 0.8411919906082768, 1e-15);
  EXPECT_EQ(activation(x, Activation::kRelu)[1].item<double>(), 0);
  EXPECT_EQ(activation(x, Activation::kLinear)[1].item<double>(), -2);
}

TEST(GatedActivation, GradientsMatchFiniteDifferences) {
  for (const Activation kind : kActivations) {
    EXPECT_LT(gradient_error([&](const auto& in) { return gated_activation(in[0], in[1], kind); },
                             {normal({3, 7}, 4), normal({3, 7}, 5)}),
              1e-8);
  }
}

TEST(GatedActivation, OfBfloatIsComputedInFloatAndRoundedOnce) {
  const at::Tensor gate = normal({9, 13}, 4, at::kBFloat16), up = normal({9, 13}, 5, at::kBFloat16);
  for (const Activation kind : kActivations) {
    const at::Tensor exact = activation(gate.to(at::kDouble), kind) * up.to(at::kDouble);
    const at::Tensor gap = (gated_activation(gate, up, kind).to(at::kDouble) - exact).abs();
    // One rounding to 8 bits: at most 2^-8 of the value.
    EXPECT_LE((gap - exact.abs() * 0x1p-8).max().item<double>(), 1e-6) << static_cast<int>(kind);
  }
}

TEST(GatedActivation, ValueIsActOfGateTimesUp) {
  const at::Tensor gate = at::tensor({1.0, 2.0}, at::kDouble), up = at::tensor({3.0, -0.5}, at::kDouble);
  const at::Tensor y = gated_activation(gate, up, Activation::kSilu);
  EXPECT_NEAR(y[0].item<double>(), 3 * 0.7310585786300049, 1e-14);
  EXPECT_NEAR(y[1].item<double>(), -0.5 * 2 * 0.8807970779778823, 1e-14);
  EXPECT_THROW(gated_activation(gate, up.to(at::kFloat), Activation::kSilu), ShapeError);
}

TEST(Linear, MixedTypesGiveTheWideProductRoundedOnce) {
  const at::Tensor x = normal({3, 5, 16}, 6, at::kBFloat16), weight = normal({8, 16}, 7, at::kFloat);
  const at::Tensor bias = normal({8}, 8, at::kFloat);
  const at::Tensor y = linear(x, weight, bias);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  const at::Tensor exact = at::linear(x.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble));
  EXPECT_LT(relative_error(y, exact), 0.005);
  EXPECT_TRUE(at::equal(y, at::linear(x.to(at::kFloat), weight, bias).to(at::kBFloat16)));
}

TEST(Linear, MixedTypesGiveTheGradientsOfTheWideProduct) {
  const at::Tensor x = normal({3, 5, 16}, 6, at::kBFloat16).set_requires_grad(true);
  const at::Tensor weight = normal({8, 16}, 7, at::kFloat).set_requires_grad(true);
  const at::Tensor bias = normal({8}, 8, at::kFloat).set_requires_grad(true);
  const at::Tensor cotangent = normal({3, 5, 8}, 9, at::kBFloat16);
  const auto d = torch::autograd::grad({linear(x, weight, bias)}, {x, weight, bias}, {cotangent});
  const at::Tensor g = cotangent.to(at::kDouble).reshape({15, 8});
  EXPECT_EQ(d[0].scalar_type(), at::kBFloat16);
  EXPECT_EQ(d[1].scalar_type(), at::kFloat);
  EXPECT_LT(relative_error(d[0], g.mm(weight.to(at::kDouble)).view({3, 5, 16})), 0.005);
  EXPECT_LT(relative_error(d[1], g.t().mm(x.to(at::kDouble).view({15, 16}))), 1e-6);
  EXPECT_LT(relative_error(d[2], g.sum(0)), 1e-6);
}

TEST(Linear, GradientsMatchFiniteDifferencesForOneType) {
  EXPECT_LT(gradient_error([](const auto& in) { return linear(in[0], in[1], in[2]); },
                           {normal({2, 3, 4}, 1), normal({5, 4}, 2), normal({5}, 3)}),
            1e-8);
  EXPECT_THROW(linear(normal({2, 3}, 1), normal({5, 4}, 2), at::Tensor()), ShapeError);
}

}  // namespace
}  // namespace ballast
