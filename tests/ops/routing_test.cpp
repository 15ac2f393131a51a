// SPDX-License-Identifier: Apache-2.0
#include "ops/routing.h"

#include <gtest/gtest.h>

#include <cmath>

#include "errors/errors.h"
#include "ops/gradcheck.h"

namespace ballast {
namespace {

RouterSpec router_of(int64_t num_experts, int64_t num_chosen, RouterScore score, bool normalizes = true) {
  return {.num_experts = num_experts, .num_experts_per_tok = num_chosen, .score = score, .normalizes = normalizes};
}

at::Tensor ids(std::vector<int64_t> values, at::IntArrayRef shape) {
  return at::tensor(values, at::kLong).view(shape);
}

at::Tensor reals(std::vector<double> values, at::IntArrayRef shape) {
  return at::tensor(values, at::kDouble).view(shape);
}

const at::Tensor& four_tokens() {
  static const at::Tensor logits = reals({2, 1, 0, -1, 1, 2, 0, 0, 2, 0, 1, -1, 2, 1, -1, 0}, {4, 4});
  return logits;
}

// Four tokens, sigmoid scores, a bias of 0.3 on expert 2, two experts, scaling 2.5; computed by hand.
TEST(Routing, BiasMovesTheChoiceAndNotTheWeights) {
  RouterSpec router = router_of(4, 2, RouterScore::kSigmoid);
  router.scaling_factor = 2.5;
  const at::Tensor selection = router_scores(four_tokens(), router.score) + reals({0, 0, 0.3, 0}, {4});
  const at::Tensor expert_NK = choose_experts(selection, router);
  EXPECT_TRUE(at::equal(expert_NK, ids({0, 2, 1, 2, 2, 0, 0, 1}, {4, 2}))) << expert_NK;
  const at::Tensor expected =
      reals({1.594726, 0.905274, 1.594726, 0.905274, 1.133877, 1.366123, 1.366123, 1.133877}, {4, 2});
  EXPECT_LE((routing_weights(four_tokens(), expert_NK, router) - expected).abs().max().item<double>(), 5e-7);
}

// Scores of eight experts in four groups, two of which are kept. Sums of the two best: 1.0, 1.1, 1.0, 0.7; of the equal
// groups 0 and 2 the lower one stays.
TEST(Routing, GroupsLimitTheChoiceToTheBest) {
  const at::Tensor scores = reals({.9, .1, .6, .5, .2, .8, .3, .4}, {1, 8});
  RouterSpec router = router_of(8, 2, RouterScore::kSigmoid);
  EXPECT_TRUE(at::equal(choose_experts(scores, router), ids({0, 5}, {1, 2})));
  router.num_groups = 4;
  router.num_kept_groups = 2;
  EXPECT_TRUE(at::equal(choose_experts(scores, router), ids({0, 2}, {1, 2})));
  EXPECT_TRUE(at::equal(choose_experts(scores.to(at::kHalf), router), ids({0, 2}, {1, 2}))) << "by sorting";
}

// The same scores, groups ranked by their best: .9, .6, .8, .4. By the two best, groups 1 and 0 stayed.
TEST(Routing, GroupsMayBeRankedByTheirBestScore) {
  const at::Tensor scores = reals({.9, .1, .6, .5, .2, .8, .3, .4}, {1, 8});
  RouterSpec router = router_of(8, 3, RouterScore::kSoftmax);
  router.num_groups = 4;
  router.num_kept_groups = 2;
  EXPECT_TRUE(at::equal(choose_experts(scores, router), ids({0, 2, 3}, {1, 3})));
  router.group_score = GroupScore::kBest;
  EXPECT_TRUE(at::equal(choose_experts(scores, router), ids({0, 5, 4}, {1, 3})));
  EXPECT_TRUE(at::equal(choose_experts(scores.to(at::kHalf), router), ids({0, 5, 4}, {1, 3}))) << "by sorting";
  // Groups of one expert have a best score, but no second one.
  router.num_groups = 8;
  router.num_kept_groups = 3;
  EXPECT_TRUE(at::equal(choose_experts(scores, router), ids({0, 5, 2}, {1, 3})));
  router.group_score = GroupScore::kTwoBest;
  EXPECT_THROW(choose_experts(scores, router), ShapeError);
}

// A group that is left out is no choice, not a score of 0: scores moved below zero by a bias still choose inside the
// kept groups.
TEST(Routing, ExpertsOfOtherGroupsAreNotChosenForNegativeScores) {
  RouterSpec router = router_of(4, 2, RouterScore::kSigmoid);
  router.num_groups = 2;
  router.num_kept_groups = 1;
  const at::Tensor scores = reals({-0.5, -0.4, -0.9, -0.1}, {1, 4});
  EXPECT_TRUE(at::equal(choose_experts(scores, router), ids({1, 0}, {1, 2})));
}

TEST(Routing, EqualScoresGoToTheLowerExpert) {
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf}) {
    const at::Tensor expert_NK = choose_experts(at::zeros({300, 6}, type), router_of(6, 2, RouterScore::kLogits));
    EXPECT_TRUE(at::equal(expert_NK, ids({0, 1}, {1, 2}).expand({300, 2})));
  }
}

// The kernel against a stable sort, on values with many ties.
TEST(Routing, ChoiceEqualsAStableSort) {
  const at::Tensor scores = (normal({500, 40}, 3) * 3).round();
  for (const int64_t count : {1, 3, 40}) {
    const at::Tensor expert_NK = choose_experts(scores, router_of(40, count, RouterScore::kLogits));
    EXPECT_TRUE(at::equal(expert_NK, std::get<1>(at::sort(scores, true, 1, true)).narrow(1, 0, count))) << count;
    RouterSpec grouped = router_of(40, std::min<int64_t>(count, 12), RouterScore::kLogits);
    grouped.num_groups = 10;
    grouped.num_kept_groups = 3;
    EXPECT_TRUE(at::equal(choose_experts(scores, grouped), choose_experts(scores.to(at::kHalf), grouped))) << count;
  }
}

TEST(Routing, ScoresThatAreNoNumbersStillNameExperts) {
  const at::Tensor expert_NK = choose_experts(at::full({3, 5}, std::nan("")), router_of(5, 2, RouterScore::kLogits));
  EXPECT_TRUE(expert_NK.ge(0).logical_and(expert_NK.lt(5)).all().item<bool>());
}

TEST(Routing, SqrtSoftplusHasItsValuesAndSlope) {
  const at::Tensor z = reals({-2, 0, 1, 5, 30, -20}, {1, 6}).set_requires_grad(true);
  const at::Tensor scores = router_scores(z, RouterScore::kSqrtSoftplus);
  const at::Tensor expected = reals({.356270, .832555, 1.145976, 2.237569, 5.477226, 4.54e-5}, {1, 6});
  EXPECT_LE((scores - expected).abs().max().item<double>(), 5e-7);
  scores.sum().backward();
  EXPECT_NEAR(z.grad()[0][1].item<double>(), .300281, 5e-7);
}

// Weights against their definition with e^z written out, all forms, and their gradients against differences.
TEST(Routing, WeightsAreScoresOverTheirSumOrAsTheyAre) {
  const at::Tensor logits = normal({7, 6}, 5);
  const at::Tensor expert_NK = choose_experts(logits, router_of(6, 3, RouterScore::kLogits));
  const auto score_of = [](RouterScore score, const at::Tensor& z) {
    if (score == RouterScore::kSigmoid) return 1 / (1 + (-z).exp());
    if (score == RouterScore::kSqrtSoftplus) return (1 + z.exp()).log().sqrt();
    return z.exp() / z.exp().sum(1, true);
  };
  for (const RouterScore score :
       {RouterScore::kLogits, RouterScore::kSoftmax, RouterScore::kSigmoid, RouterScore::kSqrtSoftplus}) {
    for (const bool normalizes : {true, false}) {
      RouterSpec router = router_of(6, 3, score, normalizes);
      router.scaling_factor = 1.5;
      at::Tensor expected = score_of(score, logits).gather(1, expert_NK) * 1.5;
      if (normalizes || score == RouterScore::kLogits) expected = 1.5 * expected / expected.sum(1, true);
      const at::Tensor weights = routing_weights(logits, expert_NK, router);
      EXPECT_LE((weights - expected).abs().max().item<double>(), 1e-14) << static_cast<int>(score) << normalizes;
      const auto function = [&](const std::vector<at::Tensor>& x) { return routing_weights(x[0], expert_NK, router); };
      EXPECT_LE(gradient_error(function, {logits}), 1e-9) << static_cast<int>(score) << normalizes;
    }
    const at::Tensor shares = router_shares(logits, score), plain = score_of(score, logits);
    EXPECT_LE((shares - plain / plain.sum(1, true)).abs().max().item<double>(), 1e-14) << static_cast<int>(score);
  }
}

// Scores far below the smallest fp32 number keep their ratios: nothing is divided by zero.
TEST(Routing, WeightsOfVanishingScoresAreFinite) {
  for (const RouterScore score : {RouterScore::kSigmoid, RouterScore::kSqrtSoftplus, RouterScore::kSoftmax}) {
    const at::Tensor logits = at::full({1, 4}, -200.0, at::kFloat);
    const at::Tensor weights = routing_weights(logits, ids({1, 3}, {1, 2}), router_of(4, 2, score));
    EXPECT_LE((weights - 0.5).abs().max().item<double>(), 1e-6) << static_cast<int>(score);
    const at::Tensor shares = router_shares(logits, score);
    EXPECT_LE((shares - 0.25).abs().max().item<double>(), 1e-6) << static_cast<int>(score);
  }
}

TEST(Routing, RefusesMoreChoicesThanThereAreExperts) {
  EXPECT_THROW(choose_experts(at::zeros({2, 4}), router_of(4, 5, RouterScore::kLogits)), ShapeError);
  EXPECT_THROW(choose_experts(at::zeros({2, 3}), router_of(4, 2, RouterScore::kLogits)), ShapeError);
}

}  // namespace
}  // namespace ballast
