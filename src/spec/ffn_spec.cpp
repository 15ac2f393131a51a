// SPDX-License-Identifier: Apache-2.0
#include "spec/ffn_spec.h"

#include <algorithm>

#include "config/value.h"
#include "errors/log.h"
#include "spec/spec_error.h"

namespace ballast {
namespace {

Activation parse_activation(const Config& config, const std::string& name) {
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "gelu") return Activation::kGeluTanh;  // as in MaxText
  if (name == "gelu_exact") return Activation::kGelu;
  if (name == "relu") return Activation::kRelu;
  if (name == "linear") return Activation::kLinear;
  fail_spec(config, "mlp_activations", "unknown activation", name, "silu, gelu, gelu_exact, relu or linear");
}

std::string list_text(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return "[" + list + "]";
}

bool is_gated(const std::vector<std::string>& activations) {
  return activations.size() == 2 && activations[1] == "linear";
}

DenseFfnSpec make_dense_ffn(const Config& config) {
  const auto& names = config.mlp_activations;
  if (names.size() != 1 && !is_gated(names)) {
    fail_spec(config, "mlp_activations", "not a feed-forward layer of this decoder", list_text(names),
              "[activation] or [activation, linear]");
  }
  DenseFfnSpec ffn;
  ffn.mlp_dim = config.mlp_dim;
  ffn.activation = parse_activation(config, names[0]);
  ffn.is_gated = is_gated(names);
  ffn.has_bias = config.mlp_bias;
  if (config.mlp_activations_limit > 0) {
    if (!ffn.is_gated) {
      fail_spec(config, "mlp_activations_limit", "only a gated feed-forward layer is clipped",
                to_text(config.mlp_activations_limit), "-1, or mlp_activations=[" + names[0] + ", linear]");
    }
    ffn.activation_limit = config.mlp_activations_limit;
  }
  if (config.mlp_activations_alpha != 0 && config.mlp_activations_alpha != 1) {
    fail_spec(config, "mlp_activations_alpha", "layers without experts have none",
              to_text(config.mlp_activations_alpha), "0 or 1");
  }
  return ffn;
}

/// MaxText writes the SiLU with alpha as [sigmoid, linear]: its gpt_oss layers multiply the sigmoid with the gate.
Activation parse_expert_activation(const Config& config, const Family& family) {
  const auto& names = config.mlp_activations;
  if (!is_gated(names)) {
    fail_spec(config, "mlp_activations", "experts are gated", list_text(names), "[activation, linear]");
  }
  const bool says_sigmoid = names[0] == "sigmoid" && family.experts.activation_alpha != 1;
  return says_sigmoid ? Activation::kSilu : parse_activation(config, names[0]);
}

RouterScore parse_score(const Config& config) {
  if (config.routed_score_func == "softmax") return RouterScore::kSoftmax;
  if (config.routed_score_func == "sigmoid") return RouterScore::kSigmoid;
  if (config.routed_score_func == "sqrtsoftplus") return RouterScore::kSqrtSoftplus;
  return RouterScore::kLogits;
}

bool normalizes(const Config& config, RouterScore score) {
  if (score == RouterScore::kLogits) {
    if (config.norm_topk_prob == std::optional(false)) {
      warn_once("norm_topk_prob", "config: " + config.origin("norm_topk_prob") +
                                      " norm_topk_prob=false has no effect with routed_score_func='': the weights are "
                                      "a softmax over the chosen experts and sum to 1");
    }
    return true;
  }
  return config.norm_topk_prob.value_or(score != RouterScore::kSoftmax);
}

void set_groups(const Config& config, RouterSpec& router) {
  const int64_t groups = config.n_routing_groups, kept = config.topk_routing_group;
  if (groups < 1 && kept < 1) return;
  if (groups < 1) {
    fail_spec(config, "n_routing_groups", "topk_routing_group chooses among groups of experts", to_text(groups),
              "their number, or topk_routing_group=-1");
  }
  if (kept < 1) {
    fail_spec(config, "topk_routing_group", "n_routing_groups needs the number of groups a token may use",
              to_text(kept), "1 to " + to_text(groups));
  }
  const bool ranks_by_best = router.score == RouterScore::kSoftmax;
  const int64_t smallest = ranks_by_best ? 1 : 2;
  if (router.num_experts % groups != 0 || router.num_experts / groups < smallest) {
    fail_spec(
        config, "n_routing_groups",
        smallest == 1 ? "experts form equal groups" : "experts form equal groups of two or more", to_text(groups),
        "a divisor of num_experts=" + to_text(router.num_experts) + (smallest == 1 ? "" : ", at most half of it"));
  }
  if (kept > groups) {
    fail_spec(config, "topk_routing_group", "more than there are groups", to_text(kept),
              "at most n_routing_groups=" + to_text(groups));
  }
  const int64_t group_size = router.num_experts / groups;
  if (kept * group_size < router.num_experts_per_tok) {
    fail_spec(config, "topk_routing_group",
              "the groups of " + to_text(group_size) + " experts hold fewer than a token is sent to", to_text(kept),
              "groups for num_experts_per_tok=" + to_text(router.num_experts_per_tok) + " experts");
  }
  if (kept == groups) return;  // no expert is left out
  router.num_groups = groups;
  router.num_kept_groups = kept;
  if (ranks_by_best) router.group_score = GroupScore::kBest;
}

RouterSpec make_router(const Config& config, const Family& family) {
  RouterSpec router;
  router.num_experts = config.num_experts;
  router.num_experts_per_tok = config.num_experts_per_tok;
  if (router.num_experts_per_tok > router.num_experts) {
    fail_spec(config, "num_experts_per_tok", "more than there are experts", to_text(router.num_experts_per_tok),
              "at most num_experts=" + to_text(router.num_experts));
  }
  router.score = parse_score(config);
  router.normalizes = normalizes(config, router.score);
  router.scaling_factor = config.routed_scaling_factor;
  router.has_bias = config.routed_bias && family.experts.trains_routed_bias;
  router.has_selection_bias = config.routed_bias && !family.experts.trains_routed_bias;
  set_groups(config, router);
  return router;
}

MoeFfnSpec make_moe_ffn(const Config& config, const Family& family) {
  MoeFfnSpec ffn;
  ffn.router = make_router(config, family);
  ffn.mlp_dim = config.moe_mlp_dim;
  ffn.activation = parse_expert_activation(config, family);
  if (config.mlp_activations_limit > 0) ffn.activation_limit = config.mlp_activations_limit;
  const double alpha = config.mlp_activations_alpha;
  ffn.activation_alpha = alpha > 0 ? alpha : family.experts.activation_alpha;
  if (ffn.activation_alpha != 1 && ffn.activation != Activation::kSilu) {
    fail_spec(config, "mlp_activations", "only SiLU has the alpha of these experts (mlp_activations_alpha)",
              list_text(config.mlp_activations), "[silu, linear], or mlp_activations_alpha=1");
  }
  ffn.up_offset = family.experts.up_offset;
  ffn.has_bias = config.mlp_bias;
  ffn.shared_dim = config.shared_experts * config.moe_mlp_dim;
  if (ffn.has_bias && ffn.shared_dim > 0) {
    fail_spec(config, "mlp_bias", "shared experts have no biases", "true", "false, or shared_experts=0");
  }
  ffn.names = family.experts.names;
  return ffn;
}

bool has_experts(const Config& config, int64_t layer) {
  return config.num_experts > 1 && layer >= config.first_num_dense_layers &&
         (layer + 1) % config.interleave_moe_layer_step == 0;
}

}  // namespace

std::vector<FfnSpec> make_ffns(const Config& config, const Family& family) {
  std::vector<bool> kinds;
  for (int64_t i = 0; i < config.num_decoder_layers; ++i) kinds.push_back(has_experts(config, i));
  const bool any_dense = std::find(kinds.begin(), kinds.end(), false) != kinds.end();
  const bool any_experts = std::find(kinds.begin(), kinds.end(), true) != kinds.end();
  if (config.num_experts > 1 && !any_experts) {
    const std::string layers = to_text(config.num_decoder_layers);
    const bool is_first = config.first_num_dense_layers >= config.num_decoder_layers;
    fail_spec(config, is_first ? "first_num_dense_layers" : "interleave_moe_layer_step",
              "none of the " + layers + " layers has experts, with num_experts=" + to_text(config.num_experts),
              to_text(is_first ? config.first_num_dense_layers : config.interleave_moe_layer_step),
              "a smaller number, or num_experts=1");
  }
  const FfnSpec dense = any_dense ? make_dense_ffn(config) : DenseFfnSpec();
  const FfnSpec experts = any_experts ? FfnSpec(make_moe_ffn(config, family)) : FfnSpec();
  std::vector<FfnSpec> ffns;
  for (const bool is_moe : kinds) ffns.push_back(is_moe ? experts : dense);
  return ffns;
}

MoeTraining make_moe_training(const Config& config, const Family& family) {
  MoeTraining training;
  if (config.load_balance_loss_form == "deepseek") training.form = LoadBalanceForm::kDeepSeek;
  if (config.load_balance_loss_form == "olmo") training.form = LoadBalanceForm::kOlmo;
  training.groups_by_row = config.load_balance_scope == "sequence";
  training.group_instances = config.moe_lb_group_instances;
  training.load_balance_weight = config.load_balance_loss_weight;
  training.router_z_weight = config.router_z_loss_weight;
  training.divides_by_loss_tokens = config.moe_aux_divisor == "loss_tokens";
  training.sums_layers = config.moe_aux_loss_reduction == "sum";
  if (!config.sparse_matmul && config.capacity_factor > 0) training.capacity_factor = config.capacity_factor;
  if (config.routed_bias_update_rate > 0) {
    if (!config.routed_bias) {
      fail_spec(config, "routed_bias_update_rate", "there is no bias to move", to_text(config.routed_bias_update_rate),
                "0, or routed_bias=true");
    }
    if (family.experts.trains_routed_bias) {
      fail_spec(config, "routed_bias_update_rate",
                "the router's bias of decoder_block=" + config.decoder_block + " is trained like a weight",
                to_text(config.routed_bias_update_rate), "0");
    }
  }
  training.selection_bias_rate = config.routed_bias_update_rate;
  training.has_maxtext_init = config.expert_init == "maxtext";
  return training;
}

}  // namespace ballast
