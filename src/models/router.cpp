// SPDX-License-Identifier: Apache-2.0
#include "models/router.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "losses/load_balance.h"
#include "ops/linear.h"
#include "ops/routing.h"

namespace ballast {

Router::Router(const RouterSpec& spec, const MoeTraining& moe, int64_t num_moe_layers, int64_t emb_dim,
               UnitBuilder& builder)
    : spec_(spec), moe_(moe), layer_share_(moe.sums_layers ? 1.0 : 1.0 / static_cast<double>(num_moe_layers)) {
  weight_ = builder.matrix("mlp.gate", spec.num_experts, emb_dim, /*is_wide=*/true);
  bias_ = builder.bias("mlp.gate", spec.num_experts, spec.has_bias, /*is_wide=*/true);
  if (spec.has_selection_bias) {
    selection_bias_ = builder.buffer("mlp.gate.e_score_correction_bias", at::zeros({spec.num_experts}, at::kFloat));
  }
}

Routing Router::route(const at::Tensor& x_ND, const UnitWeights& weights, BlockContext& context) const {
  const BalanceGroups& groups = context.batch.balance;
  const at::Tensor weight_ED = weight_at(weights, weight_);
  const at::Tensor logits_NE = linear(x_ND.to(weight_ED.scalar_type()), weight_ED, weight_at(weights, bias_));
  Routing routing;
  const at::Tensor chosen_NK = context.pass.decide([&] {
    const at::NoGradGuard no_grad;
    return choose_experts(selection(logits_NE, context), spec_);
  });
  routing.weight_NK = routing_weights(logits_NE, chosen_NK, spec_);
  routing.expert_NK = without_padding(chosen_NK, groups);
  const at::Tensor counts_GE = count_choices(routing.expert_NK, groups, spec_.num_experts);
  add_terms(logits_NE, counts_GE, context);
  if (moe_.capacity_factor > 0) {
    routing.expert_NK =
        drop_over_capacity(routing.expert_NK, context.batch.rows, spec_.num_experts, moe_.capacity_factor);
  }
  if (context.stats != nullptr) {
    if (context.stats->keeps_choices()) {
      context.stats->add(context.layer, LayerStatKind::kChosenExperts, routing.expert_NK);
      context.stats->add(context.layer, LayerStatKind::kChoiceWeights, routing.weight_NK);
    }
    context.stats->add(context.layer, LayerStatKind::kExpertCounts, counts_GE.sum(0));
    if (moe_.capacity_factor > 0) {
      const at::Tensor num_kept = routing.expert_NK.ge(0).sum();
      context.stats->add(context.layer, LayerStatKind::kDroppedChoices, counts_GE.sum() - num_kept);
    }
  }
  return routing;
}

std::vector<LayerStatKind> Router::term_kinds() const {
  std::vector<LayerStatKind> kinds;
  if (moe_.load_balance_weight > 0) kinds.push_back(LayerStatKind::kLoadBalance);
  if (moe_.router_z_weight > 0) kinds.push_back(LayerStatKind::kRouterZ);
  return kinds;
}

at::Tensor Router::selection(const at::Tensor& logits_NE, const BlockContext& context) const {
  const at::Tensor scores_NE = router_scores(logits_NE, spec_.score);
  return selection_bias_ < 0 ? scores_NE : scores_NE + context.buffers[static_cast<size_t>(selection_bias_)].value;
}

at::Tensor Router::balance_probabilities(const at::Tensor& logits_NE, const BlockContext& context) const {
  const bool is_share = spec_.score == RouterScore::kLogits || spec_.score == RouterScore::kSoftmax;
  if (moe_.form == LoadBalanceForm::kMaxText && !is_share) return at::softmax(selection(logits_NE, context), -1);
  return router_shares(logits_NE, spec_.score);
}

void Router::add_terms(const at::Tensor& logits_NE, const at::Tensor& counts_GE, BlockContext& context) const {
  const StepDivisors& divisors = context.batch.divisors;
  const double tokens = moe_.divides_by_loss_tokens ? divisors.loss_tokens : divisors.routed.tokens;
  if (moe_.load_balance_weight > 0) {
    LoadBalanceOptions options{.form = moe_.form, .num_experts_per_tok = spec_.num_experts_per_tok};
    options.divisor =
        moe_.form == LoadBalanceForm::kOlmo ? std::max(tokens, 1.0) : std::max(divisors.routed.groups, 1.0);
    const at::Tensor loss =
        load_balance_loss(balance_probabilities(logits_NE, context), counts_GE, context.batch.balance, options);
    context.terms.push_back({LayerStatKind::kLoadBalance, loss * (moe_.load_balance_weight * layer_share_)});
  }
  if (moe_.router_z_weight > 0) {
    const at::Tensor loss = router_z_loss(logits_NE, context.batch.balance, std::max(tokens, 1.0));
    context.terms.push_back({LayerStatKind::kRouterZ, loss * (moe_.router_z_weight * layer_share_)});
  }
}

}  // namespace ballast
