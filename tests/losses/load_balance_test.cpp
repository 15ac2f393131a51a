// SPDX-License-Identifier: Apache-2.0
#include "losses/load_balance.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "files/safetensors.h"
#include "ops/gradcheck.h"
#include "ops/routing.h"
#include "support/paths.h"
#include "tensor/stored_tensor.h"

namespace ballast {
namespace {

at::Tensor whole_numbers(std::vector<int64_t> values, at::IntArrayRef shape) {
  return at::tensor(values, at::kLong).view(shape);
}

BalanceGroups groups_of(const at::Tensor& segment_BT, const MoeTraining& moe = {}) {
  return make_balance_groups(segment_BT, at::arange(segment_BT.size(0), at::kLong), moe);
}

double loss_of(const at::Tensor& probs_NE, const at::Tensor& expert_NK, const BalanceGroups& groups,
               LoadBalanceForm form, double divisor) {
  const at::Tensor counts_GE = count_choices(expert_NK, groups, probs_NE.size(1));
  const LoadBalanceOptions options{.form = form, .num_experts_per_tok = expert_NK.size(1), .divisor = divisor};
  return load_balance_loss(probs_NE, counts_GE, groups, options).item<double>();
}

struct FourTokens {
  at::Tensor logits =
      at::tensor({2., 1., 0., -1., 1., 2., 0., 0., 2., 0., 1., -1., 2., 1., -1., 0.}, at::kDouble).view({4, 4});
  at::Tensor expert_NK = whole_numbers({0, 2, 1, 2, 2, 0, 0, 1}, {4, 2});
  BalanceGroups groups = groups_of(at::ones({1, 4}, at::kLong));
};

// Sigmoid scores with a bias of 0.3 on expert 2: f = [.75, .5, .75, 0], P = [.287359, .252953, .277478, .182210].
TEST(LoadBalanceLoss, HasTheValueOfMaxTextAndOfThePaper) {
  const FourTokens four;
  const at::Tensor selection =
      router_scores(four.logits, RouterScore::kSigmoid) + at::tensor({0.0, 0.0, 0.3, 0.0}, at::kDouble);
  const double maxtext = loss_of(at::softmax(selection, -1), four.expert_NK, four.groups, LoadBalanceForm::kMaxText, 1);
  EXPECT_NEAR(maxtext, 2.200417, 5e-7);
  const double paper = loss_of(router_shares(four.logits, RouterScore::kSigmoid), four.expert_NK, four.groups,
                               LoadBalanceForm::kDeepSeek, 1);
  EXPECT_NEAR(paper, 1.119563, 5e-7);
}

// Four experts, two chosen: round robin with equal probabilities gives 2, all on experts 0 and 1 with probabilities
// .4 .4 .1 .1 gives 3.2.
TEST(LoadBalanceLoss, IsTheNumberOfChoicesAtBalance) {
  const BalanceGroups groups = groups_of(at::ones({1, 4}, at::kLong));
  const at::Tensor even = whole_numbers({0, 1, 2, 3, 0, 1, 2, 3}, {4, 2});
  const at::Tensor flat = at::full({4, 4}, 0.25, at::kDouble);
  EXPECT_NEAR(loss_of(flat, even, groups, LoadBalanceForm::kMaxText, 1), 2.0, 1e-14);
  EXPECT_NEAR(loss_of(flat, even, groups, LoadBalanceForm::kDeepSeek, 1), 1.0, 1e-14);
  EXPECT_NEAR(loss_of(flat, even, groups, LoadBalanceForm::kOlmo, 4), 1.0, 1e-14);
  const at::Tensor two = whole_numbers({0, 1}, {1, 2}).expand({4, 2}).contiguous();
  const at::Tensor skewed = at::tensor({.4, .4, .1, .1}, at::kDouble).expand({4, 4}).contiguous();
  EXPECT_NEAR(loss_of(skewed, two, groups, LoadBalanceForm::kMaxText, 1), 3.2, 1e-14);
}

// Row 0 all on expert 0 with logits [2, 0], row 1 all on expert 1 with [0, 2]: by row both are unbalanced, together
// they are balanced. Micro-batches of one row with the step's divisor add up to the same.
TEST(LoadBalanceLoss, LooksAtRowsOrAtTheBatch) {
  const at::Tensor logits = at::tensor({2., 0., 2., 0., 0., 2., 0., 2.}, at::kDouble).view({4, 2});
  const at::Tensor probs = at::softmax(logits, -1), expert_NK = whole_numbers({0, 0, 1, 1}, {4, 1});
  const at::Tensor segments = at::ones({2, 2}, at::kLong);
  EXPECT_NEAR(loss_of(probs, expert_NK, groups_of(segments), LoadBalanceForm::kMaxText, 2), 1.761594, 5e-7);
  const MoeTraining batch{.groups_by_row = false};
  EXPECT_NEAR(loss_of(probs, expert_NK, groups_of(segments, batch), LoadBalanceForm::kMaxText, 1), 1.0, 1e-14);
  double sum = 0;
  for (const int64_t row : {0, 1}) {
    sum += loss_of(probs.narrow(0, 2 * row, 2), expert_NK.narrow(0, 2 * row, 2), groups_of(segments.narrow(0, row, 1)),
                   LoadBalanceForm::kMaxText, 2);
  }
  EXPECT_NEAR(sum, 1.761594, 5e-7);
}

TEST(BalanceGroups, AreBlocksOfNeighbouringInstances) {
  const at::Tensor segments = whole_numbers({1, 1, 1, 0, 1, 1, 0, 0}, {4, 2});
  const MoeTraining blocks{.groups_by_row = false, .group_instances = 2};
  const BalanceGroups groups = make_balance_groups(segments, whole_numbers({6, 4, 7, 5}, {4}), blocks);
  EXPECT_TRUE(at::equal(groups.group_B, whole_numbers({1, 0, 1, 0}, {4})));
  EXPECT_TRUE(at::equal(groups.tokens_G, whole_numbers({1, 4}, {2})));
  EXPECT_TRUE(at::equal(groups.is_routed_N, segments.flatten().ne(0)));
  EXPECT_FALSE(groups_of(at::ones({2, 2}, at::kLong)).is_routed_N.defined());
}

// Padded rows give what the rows cut to their length give, gradients included; an empty row gives nothing.
TEST(LoadBalanceLoss, LeavesOutPadding) {
  const at::Tensor logits = normal({8, 3}, 1), scores = at::softmax(logits, -1);
  const RouterSpec router{.num_experts = 3, .num_experts_per_tok = 2};
  const at::Tensor chosen = choose_experts(scores, router);
  const BalanceGroups padded = groups_of(whole_numbers({1, 2, 0, 0, 0, 0, 0, 0}, {2, 4}));
  const BalanceGroups cut = groups_of(whole_numbers({1, 2}, {1, 2}));
  for (const auto form : {LoadBalanceForm::kMaxText, LoadBalanceForm::kDeepSeek, LoadBalanceForm::kOlmo}) {
    const double divisor = form == LoadBalanceForm::kOlmo ? 2 : 1;
    const double whole = loss_of(scores, without_padding(chosen, padded), padded, form, divisor);
    EXPECT_NEAR(whole, loss_of(scores.narrow(0, 0, 2), chosen.narrow(0, 0, 2), cut, form, divisor), 1e-14);
  }
  const at::Tensor z = router_z_loss(logits, padded, 2);
  EXPECT_NEAR(z.item<double>(), router_z_loss(logits.narrow(0, 0, 2), cut, 2).item<double>(), 1e-14);
}

TEST(LoadBalanceLoss, GradientFlowsThroughProbabilitiesOnly) {
  const at::Tensor logits = normal({8, 5}, 2);
  const RouterSpec router{.num_experts = 5, .num_experts_per_tok = 2};
  const BalanceGroups groups = groups_of(whole_numbers({1, 1, 1, 0, 1, 1, 2, 2}, {2, 4}));
  const at::Tensor counts_GE =
      count_choices(without_padding(choose_experts(logits, router), groups), groups, router.num_experts);
  for (const auto form : {LoadBalanceForm::kMaxText, LoadBalanceForm::kDeepSeek, LoadBalanceForm::kOlmo}) {
    const LoadBalanceOptions options{.form = form, .num_experts_per_tok = 2, .divisor = 3};
    const auto loss = [&](const std::vector<at::Tensor>& x) {
      return load_balance_loss(router_shares(x[0], RouterScore::kSoftmax), counts_GE, groups, options);
    };
    EXPECT_LE(gradient_error(loss, {logits}), 1e-9);
  }
  const auto z = [&](const std::vector<at::Tensor>& x) { return router_z_loss(x[0], groups, 7); };
  EXPECT_LE(gradient_error(z, {logits}), 1e-9);
}

// Equal scores of any size are balanced: the loss cannot be made small by pushing all scores towards zero.
TEST(LoadBalanceLoss, DoesNotVanishWithTheScores) {
  const BalanceGroups groups = groups_of(at::ones({1, 4}, at::kLong));
  const at::Tensor expert_NK = whole_numbers({0, 1, 2, 3}, {4, 1});
  for (const double bias : {0.0, -60.0, -200.0}) {
    const at::Tensor probs = router_shares(at::full({4, 4}, bias, at::kFloat), RouterScore::kSigmoid);
    EXPECT_NEAR(loss_of(probs, expert_NK, groups, LoadBalanceForm::kDeepSeek, 1), 1.0, 1e-6) << bias;
  }
}

// One row of 6 tokens, 3 experts, one choice: a capacity of ceil(6/3) * factor. Expert 0 is asked for four times.
TEST(Capacity, LaterChoicesOfARowAreDropped) {
  const at::Tensor expert_NK = whole_numbers({0, 0, 1, 0, 0, 2}, {6, 1});
  EXPECT_TRUE(at::equal(drop_over_capacity(expert_NK, 1, 3, 1.0), whole_numbers({0, 0, 1, -1, -1, 2}, {6, 1})));
  EXPECT_TRUE(at::equal(drop_over_capacity(expert_NK, 1, 3, 1.5), whole_numbers({0, 0, 1, 0, -1, 2}, {6, 1})));
  EXPECT_TRUE(at::equal(drop_over_capacity(expert_NK, 1, 3, 0.5), whole_numbers({0, -1, 1, -1, -1, 2}, {6, 1})));
  EXPECT_TRUE(at::equal(drop_over_capacity(expert_NK, 1, 3, 2.0), expert_NK));
  // Two rows of three: one place an expert in each row.
  EXPECT_TRUE(at::equal(drop_over_capacity(expert_NK, 2, 3, 1.0), whole_numbers({0, -1, 1, 0, -1, 2}, {6, 1})));
}

// Order is (token, slot): a first choice of a later token comes behind a second choice of an earlier one.
TEST(Capacity, RanksByTokenThenSlot) {
  const at::Tensor expert_NK = whole_numbers({0, 1, 1, 0, 2, 0}, {3, 2});
  EXPECT_TRUE(at::equal(drop_over_capacity(expert_NK, 1, 3, 1.0), whole_numbers({0, 1, 1, 0, 2, -1}, {3, 2})));
}

TEST(Capacity, PaddingTakesNoneAndRaisesNone) {
  const at::Tensor expert_NK = whole_numbers({-1, -1, 0, 1, 0, -1}, {6, 1});
  EXPECT_TRUE(at::equal(drop_over_capacity(expert_NK, 1, 3, 1.0), whole_numbers({-1, -1, 0, 1, -1, -1}, {6, 1})));
}

// OLMo-core's router and losses in float32 (tests/golden/olmo_data): counts, both losses and their gradients; and the
// mean over two ranks that share their counts, which are the losses of the whole batch.
TEST(LoadBalanceLoss, EqualsOlmoCore) {
  const SafetensorsFile file(std::string(kSourcePath) + "/tests/golden/olmo_data/emo_router.safetensors");
  const auto read = [&](const char* name) { return borrow_stored(file.at(name), file.bytes(name)).clone(); };
  const at::Tensor logits_BSE = read("logits"), expert_BSK = read("expert_indices").to(at::kLong);
  const int64_t rows = logits_BSE.size(0), length = logits_BSE.size(1), experts = logits_BSE.size(2);
  const double divisor = 44;
  const at::Tensor logits = logits_BSE.flatten(0, 1).set_requires_grad(true);
  const at::Tensor expert_NK = expert_BSK.flatten(0, 1);
  const MoeTraining moe{.groups_by_row = false};
  const BalanceGroups groups = groups_of(at::ones({rows, length}, at::kLong), moe);
  const at::Tensor counts_GE = count_choices(expert_NK, groups, experts);
  EXPECT_TRUE(at::equal(counts_GE[0], read("counts").to(at::kLong)));
  EXPECT_TRUE(at::equal(count_choices(expert_NK, groups_of(at::ones({rows, length}, at::kLong)), experts),
                        read("counts_per_instance").to(at::kLong)));
  const at::Tensor probs = router_shares(logits, RouterScore::kSoftmax);
  EXPECT_LE(relative_error(probs.detach(), read("scores").flatten(0, 1)), 1e-6);
  const LoadBalanceOptions options{
      .form = LoadBalanceForm::kOlmo, .num_experts_per_tok = expert_NK.size(1), .divisor = divisor};
  const at::Tensor loss = load_balance_loss(probs, counts_GE, groups, options);
  EXPECT_NEAR(loss.item<double>() / read("lb_loss").item<double>(), 1.0, 1e-6);
  loss.backward();
  EXPECT_LE(relative_error(logits.grad(), read("grad_logits_lb").flatten(0, 1)), 1e-5);
  logits.mutable_grad().reset();
  const at::Tensor z = router_z_loss(logits, groups, divisor);
  EXPECT_NEAR(z.item<double>() / read("z_loss").item<double>(), 1.0, 1e-6);
  z.backward();
  EXPECT_LE(relative_error(logits.grad(), read("grad_logits_z").flatten(0, 1)), 1e-5);
}

// The weights of OLMo-core's router, L1-normalised and scaled by the number of choices, with the gradient that comes
// back through them.
TEST(Routing, WeightsEqualOlmoCore) {
  const SafetensorsFile file(std::string(kSourcePath) + "/tests/golden/olmo_data/emo_router.safetensors");
  const auto read = [&](const char* name) { return borrow_stored(file.at(name), file.bytes(name)).clone(); };
  const at::Tensor x = read("x").flatten(0, 1).set_requires_grad(true);
  const at::Tensor weight = read("router_weight").set_requires_grad(true);
  const at::Tensor expert_NK = read("expert_indices").to(at::kLong).flatten(0, 1);
  RouterSpec router{.num_experts = weight.size(0), .num_experts_per_tok = expert_NK.size(1)};
  router.scaling_factor = static_cast<double>(expert_NK.size(1));
  const at::Tensor weights = routing_weights(x.mm(weight.t()), expert_NK, router);
  EXPECT_LE(relative_error(weights.detach(), read("expert_weights").flatten(0, 1)), 1e-5);
  (weights * read("dweights").flatten(0, 1)).sum().backward();
  EXPECT_LE(relative_error(x.grad(), read("grad_x_from_weights").flatten(0, 1)), 1e-5);
  EXPECT_LE(relative_error(weight.grad(), read("grad_router_weight_from_weights")), 1e-5);
}

}  // namespace
}  // namespace ballast
