// SPDX-License-Identifier: Apache-2.0
#include "optim/adamw.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "errors/errors.h"
#include "optim/grad_clip.h"

namespace ballast {
namespace {

OptimizerSlot slot_of(const std::string& name, at::Tensor master, at::Tensor grad, bool decays = true) {
  return {name, std::move(master), std::move(grad), decays};
}

/// The update of one element, longhand in double.
struct Element {
  double p = 0;
  double m_mean = 0, v_mean = 0;  // running means that start at zero
  double m = 0, v = 0;            // what the form stores

  void update(const AdamWNumbers& n, double grad) {
    const double t = static_cast<double>(n.t);
    const double g = grad * n.grad_scale;
    m_mean = n.b1 * m_mean + (1 - n.b1) * g;
    v_mean = n.b2 * v_mean + (1 - n.b2) * g * g;
    const double m_hat = m_mean / (1 - std::pow(n.b1, t)), v_hat = v_mean / (1 - std::pow(n.b2, t));
    double direction = m_hat;
    if (n.form == AdamForm::kNesterov) {
      direction = n.b1 * m_mean / (1 - std::pow(n.b1, t + 1)) + (1 - n.b1) * g / (1 - std::pow(n.b1, t));
    }
    p -= n.learning_rate * (direction / (std::sqrt(v_hat + n.eps_root) + n.eps) + n.weight_decay * p);
    // The corrected decays keep the means free of their start at zero.
    const bool is_corrected = n.form == AdamForm::kCorrectedDecay;
    m = is_corrected ? m_hat : m_mean;
    v = is_corrected ? v_hat : v_mean;
  }
};

using Update = std::function<void(const AdamWNumbers&, const AdamWOperands&)>;

/// Runs four updates of `shape` and compares p, m and v with the longhand sum, element by element.
void expect_longhand(const Update& update, AdamWNumbers numbers, at::IntArrayRef shape) {
  at::Generator generator = at::detail::createCPUGenerator(3);
  AdamWOperands operands{at::randn(shape, generator), {}, {at::zeros(shape), at::zeros(shape)}};
  std::vector<Element> elements(static_cast<size_t>(operands.p.numel()));
  for (size_t i = 0; i < elements.size(); ++i) elements[i].p = operands.p.const_data_ptr<float>()[i];

  for (numbers.t = 1; numbers.t <= 4; ++numbers.t) {
    operands.grad = at::randn(shape, generator);
    for (size_t i = 0; i < elements.size(); ++i) elements[i].update(numbers, operands.grad.const_data_ptr<float>()[i]);
    update(numbers, operands);
  }
  const float* p = operands.p.const_data_ptr<float>();
  const float* m = operands.moments.m.const_data_ptr<float>();
  const float* v = operands.moments.v.const_data_ptr<float>();
  for (size_t i = 0; i < elements.size(); ++i) {
    ASSERT_NEAR(p[i], elements[i].p, 4e-7 * (1 + std::abs(elements[i].p))) << i;
    ASSERT_NEAR(m[i], elements[i].m, 4e-7) << i;
    ASSERT_NEAR(v[i], elements[i].v, 4e-7 * elements[i].v + 1e-12) << i;
  }
}

AdamWNumbers usual_numbers() {
  AdamWNumbers numbers;
  numbers.learning_rate = 1e-2;
  numbers.weight_decay = 0.1;
  numbers.b1 = 0.9;
  numbers.b2 = 0.95;
  numbers.eps = 1e-8;
  return numbers;
}

void update_fused(const AdamWNumbers& numbers, const AdamWOperands& operands) {
  adamw_update_fused(numbers, {operands});
}

const std::vector<std::vector<int64_t>> kShapes = {{}, {1}, {7}, {31, 3}, {257, 129}, {3, 0}};

TEST(AdamW, TwoStepsGiveTheTestPoint) {
  AdamW optimizer(AdamWOptions{.b1 = .9, .b2 = .95, .eps = 1e-8, .eps_root = 0, .weight_decay = .1});
  const at::Tensor p = at::tensor({1.f});
  optimizer.step(std::vector{slot_of("w", p, at::tensor({.5f}))}, .1, 1);
  EXPECT_NEAR(p.item<double>(), 0.890000002, 1e-7);
  EXPECT_NEAR(optimizer.moments().at("w").m.item<double>(), 0.05, 1e-8);
  EXPECT_NEAR(optimizer.moments().at("w").v.item<double>(), 0.0125, 1e-8);
  optimizer.step(std::vector{slot_of("w", p, at::tensor({-.25f}))}, .1, 1);
  EXPECT_NEAR(p.item<double>(), 0.854263058, 1e-7);
  EXPECT_NEAR(optimizer.moments().at("w").m.item<double>(), 0.02, 1e-8);
  EXPECT_NEAR(optimizer.moments().at("w").v.item<double>(), 0.015, 1e-8);
  EXPECT_EQ(optimizer.step_count(), 2);
}

TEST(AdamW, EveryPathIsTheLonghandUpdate) {
  for (const auto& shape : kShapes) {
    for (const double weight_decay : {0.0, 0.1}) {
      for (const double grad_scale : {1.0, 0.037}) {
        AdamWNumbers numbers = usual_numbers();
        numbers.weight_decay = weight_decay;
        numbers.grad_scale = grad_scale;
        expect_longhand(adamw_update_cpu, numbers, shape);
        expect_longhand(adamw_update_plain, numbers, shape);
        expect_longhand(update_fused, numbers, shape);
      }
    }
  }
}

TEST(AdamW, EveryFormIsItsLonghandUpdate) {
  for (const AdamForm form : {AdamForm::kNesterov, AdamForm::kCorrectedDecay}) {
    for (const auto& shape : kShapes) {
      AdamWNumbers numbers = usual_numbers();
      numbers.form = form;
      numbers.grad_scale = 0.37;
      numbers.eps_root = 1e-3;
      expect_longhand(adamw_update_cpu, numbers, shape);
      expect_longhand(adamw_update_plain, numbers, shape);
    }
  }
}

TEST(AdamW, CorrectedDecaysTakeTheSameStepsWithOtherMoments) {
  AdamW optimizer(AdamWOptions{.b1 = .9, .b2 = .95, .eps = 1e-8, .eps_root = 0, .weight_decay = .1},
                  AdamForm::kCorrectedDecay);
  const at::Tensor p = at::tensor({1.f});
  optimizer.step(std::vector{slot_of("w", p, at::tensor({.5f}))}, .1, 1);
  EXPECT_NEAR(p.item<double>(), 0.890000002, 1e-7);
  EXPECT_NEAR(optimizer.moments().at("w").m.item<double>(), 0.5, 1e-8);
  EXPECT_NEAR(optimizer.moments().at("w").v.item<double>(), 0.25, 1e-8);
  optimizer.step(std::vector{slot_of("w", p, at::tensor({-.25f}))}, .1, 1);
  EXPECT_NEAR(p.item<double>(), 0.854263058, 1e-7);
  EXPECT_NEAR(optimizer.moments().at("w").m.item<double>(), 0.105263158, 1e-7);
  EXPECT_NEAR(optimizer.moments().at("w").v.item<double>(), 0.153846154, 1e-7);
}

// With m in bfloat16 a step starts from the stored mean and goes along the one before rounding.
TEST(AdamW, FirstMomentInBFloat16IsRoundedAfterTheStep) {
  for (const AdamForm form : {AdamForm::kBiasCorrected, AdamForm::kNesterov, AdamForm::kCorrectedDecay}) {
    for (const Update& update : {Update(adamw_update_cpu), Update(adamw_update_plain)}) {
      at::Generator generator = at::detail::createCPUGenerator(8);
      AdamWNumbers n = usual_numbers();
      n.form = form;
      const at::TensorOptions bf16 = at::TensorOptions().dtype(at::kBFloat16);
      AdamWOperands operands{at::randn({257}, generator), {}, {at::zeros({257}, bf16), at::zeros({257})}};
      for (n.t = 1; n.t <= 3; ++n.t) {
        operands.grad = at::randn({257}, generator);
        const at::Tensor p = operands.p.to(at::kDouble), g = operands.grad.to(at::kDouble);
        const double t = static_cast<double>(n.t);
        // Decays of the stored means: corrected ones give (1 - b) / (1 - b^t) to the new value.
        const bool is_corrected = form == AdamForm::kCorrectedDecay;
        const double new_share = is_corrected ? (1 - n.b1) / (1 - std::pow(n.b1, t)) : 1 - n.b1;
        const double new_square = is_corrected ? (1 - n.b2) / (1 - std::pow(n.b2, t)) : 1 - n.b2;
        const at::Tensor m = operands.moments.m.to(at::kDouble) * (1 - new_share) + g * new_share;
        const at::Tensor v = operands.moments.v.to(at::kDouble) * (1 - new_square) + g * g * new_square;
        const double v_missing = is_corrected ? 1 : 1 - std::pow(n.b2, t);
        at::Tensor direction = is_corrected ? m : m / (1 - std::pow(n.b1, t));
        if (form == AdamForm::kNesterov) {
          direction = m * (n.b1 / (1 - std::pow(n.b1, t + 1))) + g * ((1 - n.b1) / (1 - std::pow(n.b1, t)));
        }
        const at::Tensor expected =
            p - n.learning_rate * (direction / ((v / v_missing).sqrt() + n.eps) + n.weight_decay * p);
        update(n, operands);
        EXPECT_LE((operands.p.to(at::kDouble) - expected).abs().max().item<double>(), 1e-6);
        const at::Tensor rounding = (operands.moments.m.to(at::kDouble) - m).abs() - m.abs() / 256;
        EXPECT_LE(rounding.max().item<double>(), 1e-7);
        EXPECT_EQ(operands.moments.m.scalar_type(), at::kBFloat16);
      }
    }
  }
}

TEST(AdamW, KernelRoundsLikeATen) {
  at::Generator generator = at::detail::createCPUGenerator(8);
  // With b1 = 0 the stored mean is the gradient; ties are among the values.
  const at::Tensor values = at::cat({at::randn({10000}, generator), at::arange(4096) / 1024 + 1});
  AdamWNumbers numbers = usual_numbers();
  numbers.b1 = 0;
  const at::Tensor m = at::zeros_like(values, at::kBFloat16);
  adamw_update_cpu(numbers, {at::zeros_like(values), values, {m, at::zeros_like(values)}});
  EXPECT_TRUE(at::equal(m, values.to(at::kBFloat16)));
}

TEST(AdamW, EpsRootSitsInsideTheRoot) {
  AdamWNumbers numbers = usual_numbers();
  numbers.eps_root = 0.3;
  expect_longhand(adamw_update_cpu, numbers, {31, 3});
  expect_longhand(adamw_update_plain, numbers, {31, 3});
}

TEST(AdamW, SmallDecayKeepsItsDigits) {
  AdamWNumbers numbers = usual_numbers();
  numbers.learning_rate = 3e-5;  // decay 3e-6 a step
  for (const Update& update : {Update(adamw_update_cpu), Update(adamw_update_plain)}) {
    // Spread over many values, rounding of p averages out and the mean shows the decay that was applied.
    const at::Tensor before = at::linspace(1, 2, 1 << 16);
    const AdamWOperands operands{
        before.clone(), at::zeros_like(before), {at::zeros_like(before), at::zeros_like(before)}};
    update(numbers, operands);
    const double applied = before.to(at::kDouble).sub(operands.p.to(at::kDouble)).sum().item<double>();
    EXPECT_NEAR(applied / before.to(at::kDouble).sum().item<double>(), 3e-6, 3e-9);
  }
}

TEST(AdamW, SlotWithoutGradientIsLeftAlone) {
  AdamW optimizer(AdamWOptions{});
  const at::Tensor still = at::tensor({1.f, 2.f}), moving = at::tensor({1.f, 2.f});
  optimizer.step(std::vector{slot_of("still", still, {}), slot_of("moving", moving, at::ones({2}))}, .1, 1);
  EXPECT_TRUE(at::equal(still, at::tensor({1.f, 2.f})));
  EXPECT_FALSE(at::equal(moving, at::tensor({1.f, 2.f})));
  EXPECT_EQ(optimizer.moments().count("still"), 0u);
  EXPECT_EQ(optimizer.moments().count("moving"), 1u);
}

TEST(AdamW, OnlyMembersDecay) {
  AdamW optimizer(AdamWOptions{.b1 = .9, .b2 = .95, .eps = 1e-8, .eps_root = 0, .weight_decay = .5});
  const at::Tensor kept = at::tensor({2.f}), decayed = at::tensor({2.f});
  optimizer.step(std::vector{slot_of("kept", kept, at::zeros({1}), false), slot_of("decayed", decayed, at::zeros({1}))},
                 .1, 1);
  EXPECT_EQ(kept.item<float>(), 2.f);
  EXPECT_FLOAT_EQ(decayed.item<float>(), 1.9f);  // 2 - .1 * .5 * 2
}

TEST(AdamW, GradScaleEqualsAScaledGradient) {
  AdamW by_scale(AdamWOptions{}), by_hand(AdamWOptions{});
  const at::Tensor grad = at::tensor({.5f, -3.f, 8.f});
  const at::Tensor p = at::ones({3}), q = at::ones({3});
  by_scale.step(std::vector{slot_of("w", p, grad)}, .1, .25);  // a power of two: exact
  by_hand.step(std::vector{slot_of("w", q, grad.mul(.25))}, .1, 1);
  EXPECT_TRUE(at::equal(p, q));
  EXPECT_TRUE(at::equal(grad, at::tensor({.5f, -3.f, 8.f})));
}

TEST(AdamW, RestoredStateContinuesBitForBit) {
  at::Generator generator = at::detail::createCPUGenerator(5);
  const at::Tensor p = at::randn({100}, generator), first = at::randn({100}, generator);
  const at::Tensor second = at::randn({100}, generator);
  AdamW whole(AdamWOptions{});
  whole.step(std::vector{slot_of("w", p, first)}, .1, 1);

  const Moments& at_stop = whole.moments().at("w");
  AdamW resumed(AdamWOptions{});
  resumed.restore(whole.step_count(), {{"w", {at_stop.m.clone(), at_stop.v.clone()}}});
  const at::Tensor q = p.clone();
  whole.step(std::vector{slot_of("w", p, second)}, .1, 1);
  resumed.step(std::vector{slot_of("w", q, second)}, .1, 1);
  EXPECT_TRUE(at::equal(p, q));
}

TEST(AdamW, BitsDoNotDependOnTheThreadCount) {
  at::Generator generator = at::detail::createCPUGenerator(9);
  const at::Tensor p = at::randn({100003}, generator), grad = at::randn({100003}, generator);
  const int threads = at::get_num_threads();
  std::vector<at::Tensor> results;
  for (const int count : {1, 3}) {
    at::set_num_threads(count);
    AdamW optimizer(AdamWOptions{});
    results.push_back(p.clone());
    optimizer.step(std::vector{slot_of("w", results.back(), grad)}, .1, .7);
    optimizer.step(std::vector{slot_of("w", results.back(), grad)}, .1, .7);
  }
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(results[0], results[1]));
}

TEST(AdamW, TensorsThatDisagreeAreShapeErrors) {
  const auto message = [](const at::Tensor& master, const at::Tensor& grad) -> std::string {
    AdamW optimizer(AdamWOptions{});
    try {
      optimizer.step(std::vector{slot_of("w", master, grad)}, .1, 1);
    } catch (const ShapeError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message(at::ones({3}), at::ones({2})).find("gradient of w does not fit"), std::string::npos);
  EXPECT_NE(message(at::ones({3}), at::ones({3}, at::kDouble)).find("gradient of w"), std::string::npos);
  EXPECT_NE(message(at::ones({3}, at::kBFloat16), at::ones({3})).find("master of w"), std::string::npos);
  EXPECT_NE(message(at::ones({3, 2}).t(), at::ones({2, 3})).find("not contiguous"), std::string::npos);
}

// The norm of the parameters comes out of the same pass over memory, with the bits of a pass of its own.
TEST(AdamW, ReturnsTheSquaredNormOfAllMasters) {
  const at::Tensor large = at::randn({3, 70001}), small = at::randn({5}), still = at::randn({7});
  const std::vector<OptimizerSlot> slots = {{"large", large, at::randn_like(large), true},
                                            {"small", small, at::randn_like(small), false},
                                            {"still", still, {}, true}};
  AdamW optimizer{AdamWOptions()};
  const double squares = optimizer.step(slots, 1e-2, 0.5);
  const std::vector<at::Tensor> reached = {large, small};
  EXPECT_EQ(squares, squared_norm(reached) + squared_norm(std::vector<at::Tensor>{still}));
  double sum = 0;
  for (const at::Tensor& master : {large, small, still}) sum += master.to(at::kDouble).square().sum().item<double>();
  EXPECT_NEAR(squares / sum, 1.0, 1e-12);
}

}  // namespace
}  // namespace ballast
