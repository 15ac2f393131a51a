// SPDX-License-Identifier: Apache-2.0
// Own CPU kernels in fp32 and bf16 against the tensor operations in fp64, on widths that leave tails and on views.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "errors/errors.h"
#include "ops/activation.h"
#include "ops/activation_kernel.h"
#include "ops/gradcheck.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"

namespace ballast {
namespace {

using Tensors = std::vector<at::Tensor>;

struct ValueAndGradients {
  at::Tensor value;
  Tensors gradients;
};

/// The function in `type`: inputs and cotangent are rounded to it first, and the layout of the inputs is kept.
ValueAndGradients run_in(at::ScalarType type, const TensorFunction& function, const Tensors& inputs,
                         at::ScalarType rounded_to) {
  Tensors leaves;
  for (const at::Tensor& input : inputs) {
    leaves.push_back(input.to(rounded_to).to(type).detach().set_requires_grad(true));
  }
  const at::Tensor value = function(leaves);
  const at::Tensor cotangent = normal(value.sizes(), 99).to(rounded_to).to(type);
  return {value.detach(), torch::autograd::grad({value}, leaves, {cotangent})};
}

/// Largest relative error of value and gradients in `type` against fp64.
double kernel_error(at::ScalarType type, const TensorFunction& function, const Tensors& inputs) {
  const ValueAndGradients got = run_in(type, function, inputs, type);
  const ValueAndGradients exact = run_in(at::kDouble, function, inputs, type);
  EXPECT_EQ(got.value.scalar_type(), type);
  double worst = relative_error(got.value, exact.value);
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(got.gradients[i].scalar_type(), type);
    worst = std::max(worst, relative_error(got.gradients[i], exact.gradients[i]));
  }
  return worst;
}

double tolerance(at::ScalarType type) {
  return type == at::kFloat ? 1e-6 : 0.005;  // bf16: a last place is 0.0078, results are rounded once
}

const std::vector<at::ScalarType> kKernelTypes = {at::kFloat, at::kBFloat16};

TEST(RmsNormKernel, MatchesFp64OnWidthsWithTails) {
  for (const at::ScalarType type : kKernelTypes) {
    for (const int64_t width : {5, 64, 129, 512}) {
      for (const NormForm form : {NormForm::kScaleThenCast, NormForm::kOnePlusScale, NormForm::kCastThenScale}) {
        // In bf16 this form rounds n too, which fp64 does not see: two roundings.
        const double limit = tolerance(type) * (form == NormForm::kCastThenScale ? 2 : 1);
        EXPECT_LT(kernel_error(type, [&](const auto& in) { return rms_norm(in[0], in[1], form, 1e-5); },
                               {normal({5, 29, width}, 1), normal({width}, 2)}),
                  limit)
            << type << " width " << width << " form " << static_cast<int>(form);
      }
    }
    EXPECT_LT(kernel_error(type, [](const auto& in) { return rms_norm(in[0], {}, NormForm::kScaleThenCast, 1e-5); },
                           {normal({3, 33}, 1)}),
              tolerance(type));
  }
}

TEST(RmsNormKernel, TakesViewsAndNoRows) {
  const auto heads_first = [](const auto& in) {
    return rms_norm(in[0].transpose(0, 1), in[1], NormForm::kScaleThenCast, 1e-5).transpose(0, 1);
  };
  const at::Tensor x = normal({4, 6, 10}, 1), weight = normal({10}, 2);
  EXPECT_LT(kernel_error(at::kFloat, heads_first, {x, weight}), 1e-6);
  EXPECT_EQ(rms_norm(at::empty({0, 8}), at::ones({8}), NormForm::kScaleThenCast, 1e-5).numel(), 0);
}

TEST(RmsNormKernel, DoesNotDependOnTheNumberOfThreads) {
  const Tensors inputs = {normal({1000, 96}, 1), normal({96}, 2)};
  const auto norm = [](const auto& in) { return rms_norm(in[0], in[1], NormForm::kScaleThenCast, 1e-5); };
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const ValueAndGradients one = run_in(at::kFloat, norm, inputs, at::kFloat);
  at::set_num_threads(2);
  const ValueAndGradients two = run_in(at::kFloat, norm, inputs, at::kFloat);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(one.value, two.value));
  EXPECT_TRUE(at::equal(one.gradients[0], two.gradients[0]));
  EXPECT_TRUE(at::equal(one.gradients[1], two.gradients[1]));
}

TEST(RopeKernel, MatchesFp64WithTailsAndViews) {
  for (const at::ScalarType type : kKernelTypes) {
    for (const bool is_interleaved : {false, true}) {
      for (const int64_t rotary_dim : {2, 10, 40}) {
        RopeSpec rope;
        rope.rotary_dim = rotary_dim;
        rope.is_interleaved = is_interleaved;
        rope.multiplies_in_fp32 = true;
        const RopeTable table = rope_table(at::arange(7).expand({2, 7}), rope, at::kFloat);
        const RopeTable wide{table.cos_BTR.to(at::kDouble), table.sin_BTR.to(at::kDouble)};
        const auto turn = [&](const auto& in) {
          return apply_rope(in[0], in[0].scalar_type() == at::kDouble ? wide : table, rope);
        };
        const auto turn_view = [&](const Tensors& in) { return turn(Tensors{in[0].permute({1, 2, 0, 3})}); };
        EXPECT_LT(kernel_error(type, turn, {normal({2, 7, 3, 41}, 1)}), tolerance(type));
        EXPECT_LT(kernel_error(type, turn_view, {normal({3, 2, 7, 41}, 1)}), tolerance(type));
      }
    }
  }
}

TEST(RopeKernel, GivesTheBitsOfTensorOperations) {
  const RopeSpec rope = [] {
    RopeSpec spec;
    spec.rotary_dim = 38;
    return spec;
  }();
  const RopeTable table = rope_table(at::arange(9).expand({2, 9}), rope, at::kFloat);
  const at::Tensor x = normal({2, 9, 3, 38}, 1, at::kFloat), y = apply_rope(x, table, rope);
  const at::Tensor a = x.narrow(3, 0, 19), b = x.narrow(3, 19, 19);
  const at::Tensor cos = table.cos_BTR.unsqueeze(2), sin = table.sin_BTR.unsqueeze(2);
  EXPECT_TRUE(at::equal(y.narrow(3, 0, 19), a * cos - b * sin));
  EXPECT_TRUE(at::equal(y.narrow(3, 19, 19), b * cos + a * sin));
}

TEST(GatedActivationKernel, MatchesFp64OnSizesWithTailsAndViews) {
  for (const at::ScalarType type : kKernelTypes) {
    for (const Activation kind : {Activation::kSilu, Activation::kGeluTanh}) {
      const auto gated = [&](const auto& in) { return gated_activation(in[0], in[1], kind); };
      const auto gated_view = [&](const Tensors& in) { return gated(Tensors{in[0].t(), in[1].t()}); };
      for (const int64_t width : {1, 15, 16, 1000, 40000}) {
        const Tensors inputs = {normal({3, width}, 1) * 4, normal({3, width}, 2)};
        EXPECT_LT(kernel_error(type, gated, inputs), tolerance(type)) << type << " width " << width;
      }
      EXPECT_LT(kernel_error(type, gated_view, {normal({5, 7}, 1), normal({5, 7}, 2)}), tolerance(type));
    }
  }
}

/// Units in the last place of fp32 between a value and its exact number.
double last_places(float value, double exact) {
  const float nearest = std::abs(static_cast<float>(exact));
  return std::abs(value - exact) / (std::nextafter(nearest, std::numeric_limits<float>::infinity()) - nearest);
}

TEST(GatedActivationKernel, KeepsItsDigitsFromTailToTail) {
  const at::Tensor x = at::linspace(-40, 40, 8001, at::kFloat), one = at::ones_like(x), y = at::empty_like(x);
  gated_forward({.gate = SigmoidGate::kSilu}, x.const_data_ptr<float>(), one.const_data_ptr<float>(),
                y.data_ptr<float>(), 8001);
  double worst = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double v = x.const_data_ptr<float>()[i];
    worst = std::max(worst, last_places(y.const_data_ptr<float>()[i], v / (1 + std::exp(-v))));
  }
  EXPECT_LT(worst, 4);
}

TEST(GatedActivationKernel, CarriesNanAndSaturates) {
  const at::Tensor x = at::tensor({std::nanf(""), 200.0F, -200.0F}), one = at::ones_like(x);
  for (const Activation kind : {Activation::kSilu, Activation::kGeluTanh}) {
    const at::Tensor y = gated_activation(x, one, kind),
                     z = gated_activation(x.to(at::kBFloat16), one.to(at::kBFloat16), kind);
    EXPECT_TRUE(std::isnan(y[0].item<float>()));
    EXPECT_TRUE(std::isnan(z[0].item<float>()));
    EXPECT_EQ(y[1].item<float>(), 200);
    EXPECT_EQ(y[2].item<float>(), 0);
  }
}

TEST(GatedLinear, GradientsMatchFiniteDifferences) {
  for (const Activation kind : {Activation::kSilu, Activation::kGeluTanh, Activation::kRelu}) {
    EXPECT_LT(gradient_error([&](const auto& in) { return gated_linear(in[0], in[1], kind, in[2], in[3]); },
                             {normal({2, 3, 5}, 1), normal({2, 3, 5}, 2), normal({4, 5}, 3), normal({4}, 4)}),
              1e-8);
  }
  EXPECT_THROW(gated_linear(normal({2, 3}, 1), normal({2, 4}, 1), Activation::kSilu, normal({4, 3}, 1), {}),
               ShapeError);
  EXPECT_THROW(gated_linear(normal({2, 3}, 1), normal({2, 3}, 1), Activation::kSilu, normal({4, 5}, 1), {}),
               ShapeError);
}

TEST(GatedLinear, MatchesFp64InKernelTypes) {
  for (const at::ScalarType type : kKernelTypes) {
    // In bf16 the product is rounded before the projection.
    EXPECT_LT(
        kernel_error(type, [](const auto& in) { return gated_linear(in[0], in[1], Activation::kSilu, in[2], {}); },
                     {normal({3, 11, 37}, 1), normal({3, 11, 37}, 2), normal({20, 37}, 3)}),
        2 * tolerance(type));
  }
}

TEST(GatedLinear, WithALimitClipsBothAndPassesGradientsOnIt) {
  const Tensors inputs = {normal({3, 11, 37}, 1), normal({3, 11, 37}, 2), normal({20, 37}, 3)};
  inputs[0][0][0][0] = inputs[1][0][0][0] = 0.5, inputs[1][0][0][1] = -0.5;
  for (const Activation kind : {Activation::kSilu, Activation::kGeluTanh, Activation::kRelu}) {
    const auto limited = [&](const auto& in) { return gated_linear(in[0], in[1], kind, in[2], {}, {}, 0.5); };
    const auto clamped = [&](const auto& in) {
      const at::Tensor gate = at::clamp_max(in[0], 0.5), up = at::clamp(in[1], -0.5, 0.5);
      return at::linear(activation(gate, kind) * up, in[2]);
    };
    const ValueAndGradients exact = run_in(at::kDouble, clamped, inputs, at::kFloat);
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      const ValueAndGradients got = run_in(type, limited, inputs, at::kFloat);
      const double limit = type == at::kDouble ? 1e-13 : 1e-6;
      EXPECT_LT(relative_error(got.value, exact.value), limit);
      for (size_t i = 0; i < 3; ++i) EXPECT_LT(relative_error(got.gradients[i], exact.gradients[i]), limit);
    }
  }
}

TEST(GatedLinear, BackwardTwiceOverOneGraphGivesTheSame) {
  Tensors leaves;
  for (const uint64_t seed : {1, 2, 3}) leaves.push_back(normal({6, 6}, seed, at::kFloat).set_requires_grad(true));
  const at::Tensor y = gated_linear(leaves[0], leaves[1], Activation::kSilu, leaves[2], {});
  const at::Tensor cotangent = normal({6, 6}, 4, at::kFloat);
  const auto first = torch::autograd::grad({y}, leaves, {cotangent}, /*retain_graph=*/true);
  const auto second = torch::autograd::grad({y}, leaves, {cotangent});
  for (size_t i = 0; i < leaves.size(); ++i) EXPECT_TRUE(at::equal(first[i], second[i]));
}

TEST(LinearGroup, GradientsMatchFiniteDifferences) {
  const auto group = [](const auto& in) {
    const auto y = linear_group(in[0], {{in[1], {}}, {in[2], in[3]}, {in[4], {}}});
    return at::cat({y[0], y[1], y[2]}, -1);
  };
  EXPECT_LT(gradient_error(
                group, {normal({2, 3, 4}, 1), normal({5, 4}, 2), normal({2, 4}, 3), normal({2}, 4), normal({3, 4}, 5)}),
            1e-8);
}

TEST(LinearGroup, AResultThatIsNotUsedHasNoGradient) {
  const at::Tensor x = normal({3, 4}, 1).set_requires_grad(true), used = normal({2, 4}, 2).set_requires_grad(true);
  const at::Tensor unused = normal({2, 4}, 3).set_requires_grad(true);
  linear_group(x, {{unused, {}}, {used, {}}})[1].sum().backward();
  EXPECT_FALSE(unused.grad().defined());
  EXPECT_LT(relative_error(x.grad(), used.sum(0).expand({3, 4})), 1e-12);
  EXPECT_LT(relative_error(used.grad(), x.sum(0).expand({2, 4})), 1e-12);
}

TEST(LinearGroup, MixedTypesSumTheInputGradientBeforeItIsRounded) {
  const at::Tensor x = normal({7, 16}, 1, at::kBFloat16).set_requires_grad(true);
  const at::Tensor a = normal({8, 16}, 2, at::kFloat).set_requires_grad(true);
  const at::Tensor b = normal({8, 16}, 3, at::kFloat).set_requires_grad(true);
  const auto y = linear_group(x, {{a, {}}, {b, {}}});
  const at::Tensor g = normal({7, 8}, 4, at::kBFloat16), h = normal({7, 8}, 5, at::kBFloat16);
  const auto d = torch::autograd::grad({y[0], y[1]}, {x, a}, {g, h});
  const at::Tensor exact = g.to(at::kDouble).mm(a.to(at::kDouble)) + h.to(at::kDouble).mm(b.to(at::kDouble));
  EXPECT_LT((d[0].to(at::kDouble) - exact).abs().div(exact.abs() + 1e-3).max().item<double>(), 0.0045);
  EXPECT_LT(relative_error(d[1], g.to(at::kDouble).t().mm(x.to(at::kDouble))), 1e-6);
  EXPECT_THROW(linear_group(x, {{a, {}}, {b.to(at::kBFloat16), {}}}), ShapeError);
}

}  // namespace
}  // namespace ballast
