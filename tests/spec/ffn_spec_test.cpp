// SPDX-License-Identifier: Apache-2.0
#include "spec/ffn_spec.h"

#include "spec/spec_case.h"

namespace ballast {
namespace {

using testing::experts_of;
using testing::small_error;
using testing::small_spec;

/// Four experts of width 16, two a token, in four layers of width 32.
std::vector<std::string> with_experts(std::vector<std::string> more) {
  more.insert(more.begin(), {"num_experts=4", "num_experts_per_tok=2", "base_moe_mlp_dim=16"});
  return more;
}

DecoderSpec moe_spec(const std::vector<std::string>& more) {
  return small_spec(with_experts(more));
}

MoeFfnSpec first_experts(const std::vector<std::string>& more) {
  return experts_of(moe_spec(more), 0);
}

std::string moe_error(const std::vector<std::string>& more) {
  return small_error(with_experts(more));
}

/// One letter a layer: E with experts, d without.
std::string kinds_of(const DecoderSpec& spec) {
  std::string kinds;
  for (const LayerSpec& layer : spec.layers) kinds += std::holds_alternative<MoeFfnSpec>(layer.ffn) ? 'E' : 'd';
  return kinds;
}

std::string log_of(const std::vector<std::string>& pairs) {
  ::testing::internal::CaptureStderr();
  moe_spec(pairs);
  return ::testing::internal::GetCapturedStderr();
}

TEST(FfnSpec, AnyDecoderBlockMayHaveExperts) {
  for (const Family& family : families()) {
    std::vector<std::string> pairs = {"decoder_block=" + family.decoder_block, "sliding_window_size=4"};
    if (family.attends_by_latent) pairs.insert(pairs.end(), {"attention_type=mla", "base_num_kv_heads=4"});
    const DecoderSpec spec = moe_spec(pairs);
    EXPECT_EQ(kinds_of(spec), "EEEE") << family.decoder_block;
    EXPECT_EQ(experts_of(spec, 3).router.num_experts, 4);
    EXPECT_EQ(experts_of(spec, 3).router.num_experts_per_tok, 2);
    EXPECT_EQ(experts_of(spec, 3).mlp_dim, 16);
  }
}

TEST(FfnSpec, OneExpertIsADenseLayer) {
  for (const std::string number : {"0", "1"}) {
    const DecoderSpec spec = small_spec({"decoder_block=mixtral", "num_experts=" + number});
    EXPECT_EQ(spec, small_spec({"decoder_block=mixtral"}));
    EXPECT_EQ(kinds_of(spec), "dddd");
  }
  // What trains experts is not part of a dense decoder.
  EXPECT_EQ(small_spec({"load_balance_loss_weight=0.1"}).moe, MoeTraining());
}

TEST(FfnSpec, KeysSayWhichLayersHaveExperts) {
  EXPECT_EQ(kinds_of(moe_spec({"first_num_dense_layers=1"})), "dEEE");
  EXPECT_EQ(kinds_of(moe_spec({"interleave_moe_layer_step=2"})), "dEdE");
  EXPECT_EQ(kinds_of(moe_spec({"interleave_moe_layer_step=3"})), "ddEd");
  EXPECT_EQ(kinds_of(moe_spec({"interleave_moe_layer_step=2", "first_num_dense_layers=2"})), "dddE");
  EXPECT_EQ(testing::ffn_of(moe_spec({"first_num_dense_layers=1"}), 0).mlp_dim, 48);
  EXPECT_EQ(moe_error({"first_num_dense_layers=4"}),
            "config: command line first_num_dense_layers: none of the 4 layers has experts, with num_experts=4; got 4, "
            "need a smaller number, or num_experts=1");
  EXPECT_EQ(moe_error({"interleave_moe_layer_step=5"}),
            "config: command line interleave_moe_layer_step: none of the 4 layers has experts, with num_experts=4; got "
            "5, need a smaller number, or num_experts=1");
}

TEST(FfnSpec, WidthsFollowTheKeys) {
  EXPECT_EQ(first_experts({"base_moe_mlp_dim=-1"}).mlp_dim, 48);
  EXPECT_EQ(first_experts({"global_parameter_scale=8"}).mlp_dim, 32);
  EXPECT_EQ(first_experts({}).shared_dim, 0);
  EXPECT_EQ(first_experts({"shared_experts=2"}).shared_dim, 32);
  EXPECT_EQ(first_experts({}).latent_dim, 0);
  EXPECT_FALSE(first_experts({"shared_experts=2"}).has_shared_gate);
}

TEST(FfnSpec, ReadsTheRouter) {
  const auto router = [](const std::vector<std::string>& more) { return first_experts(more).router; };
  RouterSpec plain;
  plain.num_experts = 4;
  plain.num_experts_per_tok = 2;
  plain.score = RouterScore::kLogits;
  EXPECT_EQ(router({}), plain);
  EXPECT_EQ(router({"norm_topk_prob=true"}), plain);
  EXPECT_EQ(router({"routed_score_func=softmax"}).score, RouterScore::kSoftmax);
  EXPECT_EQ(router({"routed_score_func=sigmoid"}).score, RouterScore::kSigmoid);
  EXPECT_EQ(router({"routed_score_func=sqrtsoftplus"}).score, RouterScore::kSqrtSoftplus);
  EXPECT_EQ(router({"routed_scaling_factor=2.5"}).scaling_factor, 2.5);
  EXPECT_TRUE(router({"routed_bias=true"}).has_selection_bias);
  EXPECT_FALSE(router({"routed_bias=true"}).has_bias);
}

TEST(FfnSpec, NormalisationIsByTheScoreUnlessSaid) {
  const auto normalizes = [](const std::string& score, const std::string& norm) {
    std::vector<std::string> pairs = {"routed_score_func=" + score};
    if (!norm.empty()) pairs.push_back("norm_topk_prob=" + norm);
    return first_experts(pairs).router.normalizes;
  };
  EXPECT_TRUE(normalizes("", ""));
  EXPECT_FALSE(normalizes("softmax", ""));
  EXPECT_TRUE(normalizes("sigmoid", ""));
  EXPECT_TRUE(normalizes("sqrtsoftplus", ""));
  for (const std::string score : {"softmax", "sigmoid", "sqrtsoftplus"}) {
    EXPECT_TRUE(normalizes(score, "true")) << score;
    EXPECT_FALSE(normalizes(score, "false")) << score;
  }
}

TEST(FfnSpec, NamesTheNormalisationThatIsAlwaysThere) {
  EXPECT_EQ(log_of({"norm_topk_prob=true"}), "");
  EXPECT_EQ(log_of({"norm_topk_prob=false"}),
            "warning: config: command line norm_topk_prob=false has no effect with routed_score_func='': the weights "
            "are a softmax over the chosen experts and sum to 1\n");
  EXPECT_TRUE(first_experts({"norm_topk_prob=false"}).router.normalizes);
}

TEST(FfnSpec, ChecksTheChoice) {
  EXPECT_EQ(moe_error({"num_experts_per_tok=5"}),
            "config: command line num_experts_per_tok: more than there are experts; got 5, need at most num_experts=4");
  EXPECT_EQ(first_experts({"num_experts_per_tok=4"}).router.num_experts_per_tok, 4);
}

TEST(FfnSpec, ReadsGroups) {
  const auto groups = [](const std::string& number, const std::string& kept, const std::string& chosen) {
    return std::vector<std::string>{"num_experts=8", "n_routing_groups=" + number, "topk_routing_group=" + kept,
                                    "num_experts_per_tok=" + chosen};
  };
  const RouterSpec router = first_experts(groups("4", "2", "4")).router;
  EXPECT_EQ(router.num_groups, 4);
  EXPECT_EQ(router.num_kept_groups, 2);
  EXPECT_EQ(first_experts({}).router.num_groups, 0);
  EXPECT_EQ(first_experts({}).router.num_kept_groups, 0);
  EXPECT_EQ(moe_error(groups("3", "2", "2")),
            "config: command line n_routing_groups: experts form equal groups of two or more; got 3, need a divisor of "
            "num_experts=8, at most half of it");
  EXPECT_EQ(moe_error(groups("8", "2", "2")),
            "config: command line n_routing_groups: experts form equal groups of two or more; got 8, need a divisor of "
            "num_experts=8, at most half of it");
  EXPECT_EQ(moe_error(groups("4", "5", "2")),
            "config: command line topk_routing_group: more than there are groups; got 5, need at most "
            "n_routing_groups=4");
  EXPECT_EQ(moe_error(groups("4", "1", "3")),
            "config: command line topk_routing_group: the groups of 2 experts hold fewer than a token is sent to; got "
            "1, need groups for num_experts_per_tok=3 experts");
  EXPECT_EQ(moe_error({"n_routing_groups=2"}),
            "config: default topk_routing_group: n_routing_groups needs the number of groups a token may use; got -1, "
            "need 1 to 2");
  EXPECT_EQ(moe_error({"topk_routing_group=1"}),
            "config: default n_routing_groups: topk_routing_group chooses among groups of experts; got -1, need their "
            "number, or topk_routing_group=-1");
}

// DeepSeek V2 ranks groups of softmax scores by their best one, V3 others by the sum of two.
TEST(FfnSpec, RanksGroupsByTheirScores) {
  const auto router = [](const std::string& score, const std::string& groups, const std::string& kept) {
    return first_experts({"num_experts=8", "n_routing_groups=" + groups, "topk_routing_group=" + kept,
                          "num_experts_per_tok=2", "routed_score_func=" + score})
        .router;
  };
  EXPECT_EQ(router("softmax", "4", "2").group_score, GroupScore::kBest);
  EXPECT_EQ(router("sigmoid", "4", "2").group_score, GroupScore::kTwoBest);
  EXPECT_EQ(router("", "4", "2").group_score, GroupScore::kTwoBest);
  EXPECT_EQ(router("softmax", "8", "2").num_groups, 8);
  EXPECT_EQ(router("sigmoid", "4", "4").num_groups, 0) << "no group is left out";
  EXPECT_EQ(router("sigmoid", "1", "1").num_groups, 0);
}

TEST(FfnSpec, GptOssHasItsOwnExperts) {
  const MoeFfnSpec ffn =
      first_experts({"decoder_block=gpt_oss", "sliding_window_size=4", "routed_bias=true", "mlp_bias=true",
                     "mlp_activations=[sigmoid, linear]", "mlp_activations_limit=7"});
  EXPECT_EQ(ffn.activation, Activation::kSilu);
  EXPECT_EQ(ffn.activation_alpha, 1.702);
  EXPECT_EQ(ffn.activation_limit, 7);
  EXPECT_EQ(ffn.up_offset, 1);
  EXPECT_TRUE(ffn.has_bias);
  EXPECT_TRUE(ffn.router.has_bias);
  EXPECT_FALSE(ffn.router.has_selection_bias);
  EXPECT_EQ(ffn.router.score, RouterScore::kLogits);
  EXPECT_EQ(ffn.names.storage, ExpertStorage::kFusedInterleaved);
  EXPECT_EQ(ffn.names.router, "mlp.router");
  EXPECT_EQ(ffn.names.experts, "mlp.experts");
  const DecoderSpec spec = moe_spec({"decoder_block=gpt_oss", "sliding_window_size=4"});
  EXPECT_EQ(testing::windows_of(spec), (std::vector<int64_t>{4, 0, 4, 0}));
  EXPECT_EQ(spec.layers[0].pre_mixer_norm.form, NormForm::kScaleThenCast);
  EXPECT_FALSE(spec.ropes.at(0).multiplies_in_fp32);
}

TEST(FfnSpec, NamesAreThoseOfTheFamily) {
  const ExpertNames mixtral = first_experts({"decoder_block=mixtral"}).names;
  EXPECT_EQ(mixtral.storage, ExpertStorage::kOneTensorAnExpert);
  EXPECT_EQ(mixtral.router, "block_sparse_moe.gate");
  EXPECT_EQ(mixtral.experts, "block_sparse_moe.experts");
  EXPECT_EQ(mixtral.gate, "w1");
  EXPECT_EQ(mixtral.up, "w3");
  EXPECT_EQ(mixtral.down, "w2");
  for (const std::string block : {"llama2", "qwen3_moe", "olmoe", "flex_olmo"}) {
    EXPECT_EQ(first_experts({"decoder_block=" + block}).names, ExpertNames()) << block;
  }
}

TEST(FfnSpec, BlocksOfTheOlmoFamilies) {
  const DecoderSpec olmoe = moe_spec({"decoder_block=olmoe", "use_qk_norm=true"});
  EXPECT_EQ(olmoe.layers[0].pre_ffn_norm.name, "post_attention_layernorm");
  EXPECT_EQ(olmoe.layers[0].pre_ffn_norm.form, NormForm::kCastThenScale);
  EXPECT_EQ(testing::attention_of(olmoe, 0).qk_norm, QkNormKind::kWholeProjection);
  EXPECT_FALSE(olmoe.ropes.at(0).multiplies_in_fp32);
  const DecoderSpec flex = moe_spec({"decoder_block=flex_olmo", "use_qk_norm=true"});
  EXPECT_FALSE(flex.layers[0].pre_ffn_norm.exists());
  EXPECT_EQ(flex.layers[0].post_ffn_norm.name, "post_feedforward_layernorm");
  EXPECT_EQ(flex.layers[0].post_ffn_norm.form, NormForm::kScaleThenCast);
  EXPECT_EQ(testing::attention_of(flex, 0).qk_norm, QkNormKind::kWholeProjection);
  EXPECT_EQ(testing::windows_of(flex), (std::vector<int64_t>(4, 0)));
  EXPECT_TRUE(flex.ropes.at(0).multiplies_in_fp32);
}

TEST(FfnSpec, ExpertsAreGatedAndOnlySiluHasAnAlpha) {
  EXPECT_EQ(first_experts({"mlp_activations_alpha=1.5"}).activation_alpha, 1.5);
  EXPECT_EQ(
      first_experts({"decoder_block=gpt_oss", "sliding_window_size=4", "mlp_activations_alpha=1"}).activation_alpha, 1);
  EXPECT_EQ(first_experts({"mlp_activations=[gelu, linear]"}).activation, Activation::kGeluTanh);
  EXPECT_EQ(moe_error({"mlp_activations=[silu]"}),
            "config: command line mlp_activations: experts are gated; got [silu], need [activation, linear]");
  EXPECT_EQ(moe_error({"mlp_activations=[sigmoid, linear]"}),
            "config: command line mlp_activations: unknown activation; got sigmoid, need silu, gelu, gelu_exact, relu "
            "or linear");
  EXPECT_EQ(moe_error({"mlp_activations=[gelu, linear]", "mlp_activations_alpha=1.5"}),
            "config: command line mlp_activations: only SiLU has the alpha of these experts (mlp_activations_alpha); "
            "got [gelu, linear], need [silu, linear], or mlp_activations_alpha=1");
  EXPECT_EQ(small_error({"mlp_activations_alpha=1.5"}),
            "config: command line mlp_activations_alpha: layers without experts have none; got 1.5, need 0 or 1");
  EXPECT_EQ(moe_error({"mlp_bias=true", "shared_experts=1"}),
            "config: command line mlp_bias: shared experts have no biases; got true, need false, or shared_experts=0");
}

TEST(FfnSpec, ReadsHowExpertsAreTrained) {
  EXPECT_EQ(moe_spec({}).moe, MoeTraining());
  MoeTraining training;
  training.form = LoadBalanceForm::kOlmo;
  training.groups_by_row = false;
  training.group_instances = 2;
  training.load_balance_weight = 0.25;
  training.router_z_weight = 0.5;
  training.divides_by_loss_tokens = true;
  training.sums_layers = true;
  training.capacity_factor = 1.25;
  training.selection_bias_rate = 0.125;
  training.has_maxtext_init = true;
  const std::vector<std::string> pairs = {"load_balance_loss_form=olmo",  "load_balance_scope=batch",
                                          "moe_lb_group_instances=2",     "load_balance_loss_weight=0.25",
                                          "router_z_loss_weight=0.5",     "moe_aux_divisor=loss_tokens",
                                          "moe_aux_loss_reduction=sum",   "capacity_factor=1.25",
                                          "sparse_matmul=false",          "routed_bias=true",
                                          "routed_bias_update_rate=.125", "expert_init=maxtext"};
  EXPECT_EQ(moe_spec(pairs).moe, training);
  EXPECT_EQ(moe_spec({"load_balance_loss_form=deepseek"}).moe.form, LoadBalanceForm::kDeepSeek);
  EXPECT_EQ(moe_spec({"capacity_factor=1.25"}).moe.capacity_factor, 0);
  EXPECT_EQ(moe_spec({"sparse_matmul=false"}).moe.capacity_factor, 0);
}

TEST(FfnSpec, OnlyAnUntrainedBiasMoves) {
  EXPECT_EQ(moe_error({"routed_bias_update_rate=0.001"}),
            "config: command line routed_bias_update_rate: there is no bias to move; got 0.001, need 0, or "
            "routed_bias=true");
  EXPECT_EQ(moe_error({"decoder_block=gpt_oss", "sliding_window_size=4", "routed_bias=true",
                       "routed_bias_update_rate=0.001"}),
            "config: command line routed_bias_update_rate: the router's bias of decoder_block=gpt_oss is trained like "
            "a weight; got 0.001, need 0");
}

TEST(FfnSpec, CountsExpertsByHand) {
  // D 32, V 100, 4 layers: see CountParameters.CountsASmallDecoderByHand. FFN with experts:
  //   router 32 * 4 = 128; experts 4 * 3 * 32 * 16 = 6144
  constexpr int64_t kRest = 6400 + 4 * (3072 + 64) + 32;
  EXPECT_EQ(count_parameters(moe_spec({})), kRest + 4 * (128 + 6144));
  EXPECT_EQ(count_parameters(moe_spec({"first_num_dense_layers=3"})), kRest + 3 * 4608 + 6272);
  // shared: 3 * 32 * 32
  EXPECT_EQ(count_parameters(moe_spec({"shared_experts=2"})), kRest + 4 * (6272 + 3072));
  // gate and up 16 each, down 32, four times
  EXPECT_EQ(count_parameters(moe_spec({"mlp_bias=true"})), kRest + 4 * (6272 + 256));
  // A bias of the choice is no parameter, one of the logits is.
  EXPECT_EQ(count_parameters(moe_spec({"routed_bias=true"})), kRest + 4 * 6272);
  EXPECT_EQ(count_parameters(moe_spec({"decoder_block=gpt_oss", "sliding_window_size=4", "routed_bias=true"})),
            kRest + 4 * (6272 + 4));
}

}  // namespace
}  // namespace ballast
