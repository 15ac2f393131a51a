// SPDX-License-Identifier: Apache-2.0
#include "optim/make_optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "config/resolve.h"
#include "errors/errors.h"

namespace ballast {
namespace {

/// p after two updates with the gradients of the test point, p 1, learning rate 0.1.
double two_steps(Optimizer& optimizer, const at::Tensor& p) {
  for (const float grad : {.5f, -.25f}) {
    optimizer.step(std::vector{OptimizerSlot{"model.norm.weight", p, at::full({1}, grad), true}}, .1, 1);
  }
  return p.item<double>();
}

double two_steps(const std::vector<std::string>& pairs) {
  const auto optimizer = make_optimizer(optimizer_options(config_from_pairs(pairs)));
  return two_steps(*optimizer, at::ones({1}));
}

TEST(MakeOptimizer, EachTypeGivesItsTestPoint) {
  EXPECT_NEAR(two_steps({"opt_type=adamw"}), 0.854263058, 1e-7);
  EXPECT_NEAR(two_steps({"opt_type=adam_pax"}), 0.854263058, 1e-7);
  EXPECT_NEAR(two_steps({"opt_type=sgd"}), 1 - .1 * .5 + .1 * .25, 1e-7);
  // No matrix: AdamW with n = .9 m / (1 - .9^(t+1)) + .1 g / (1 - .9^t).
  // t = 1: n = .9 * .05 / .19 + .1 * .5 / .1, w = .25; t = 2: n = .9 * .02 / .271 - .1 * .25 / .19, w = .015 / .0975
  const double first = 1 - .1 * ((.045 / .19 + .5) / .5 + .1);
  const double second = first - .1 * ((.018 / .271 - .025 / .19) / std::sqrt(.015 / .0975) + .1 * first);
  EXPECT_NEAR(two_steps({"opt_type=muon"}), second, 1e-7);
}

TEST(MakeOptimizer, KeysArrive) {
  const OptimizerOptions options = optimizer_options(config_from_pairs(
      {"opt_type=muon", "adam_b1=0.8", "adam_b2=0.85", "adam_eps=1e-6", "adam_eps_root=1e-7", "adam_weight_decay=0.3",
       "muon_beta=0.7", "muon_weight_decay=0.2", "muon_consistent_rms=0.25", "mu_dtype=bfloat16"}));
  EXPECT_EQ(options.adam.m_type, at::kBFloat16);
  EXPECT_EQ(optimizer_options(config_from_pairs({"weight_dtype=bfloat16"})).adam.m_type, at::kFloat);
  EXPECT_EQ(options.opt_type, "muon");
  EXPECT_EQ(options.adam.b1, 0.8);
  EXPECT_EQ(options.adam.b2, 0.85);
  EXPECT_EQ(options.adam.eps, 1e-6);
  EXPECT_EQ(options.adam.eps_root, 1e-7);
  EXPECT_EQ(options.adam.weight_decay, 0.3);
  EXPECT_EQ(options.muon.beta, 0.7);
  EXPECT_EQ(options.muon.weight_decay, 0.2);
  EXPECT_EQ(options.muon.consistent_rms, 0.25);
}

TEST(Sgd, IsOneProductAndKeepsNoState) {
  at::Generator generator = at::detail::createCPUGenerator(3);
  const at::Tensor start = at::randn({33, 7}, generator), grad = at::randn({33, 7}, generator);
  const at::Tensor p = start.clone(), still = at::ones({3});
  Sgd sgd;
  sgd.step(std::vector{OptimizerSlot{"w", p, grad, true}, OptimizerSlot{"still", still, {}, true}}, 0.3, 0.5);
  const at::Tensor expected = start.to(at::kDouble) - grad.to(at::kDouble) * 0.15;
  EXPECT_LE((p.to(at::kDouble) - expected).abs().max().item<double>(), 3e-7);
  EXPECT_TRUE(at::equal(still, at::ones({3})));
  EXPECT_TRUE(sgd.moments().empty());
  EXPECT_EQ(sgd.step_count(), 1);
}

TEST(Optimizers, ASlotWithoutGradientHasNoUpdateAndNoState) {
  for (const char* type : {"adamw", "adam_pax", "sgd", "muon"}) {
    const auto optimizer = make_optimizer({.opt_type = type});
    const at::Tensor p = at::ones({2, 2});
    optimizer->step(std::vector{OptimizerSlot{"a.weight", p, {}, true}}, .1, 1);
    EXPECT_TRUE(at::equal(p, at::ones({2, 2}))) << type;
    EXPECT_TRUE(optimizer->moments().empty()) << type;
    EXPECT_THROW(optimizer->step(std::vector{OptimizerSlot{"a.weight", p, at::ones({3}), true}}, .1, 1), ShapeError);
  }
}

}  // namespace
}  // namespace ballast
