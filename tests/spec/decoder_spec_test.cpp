// SPDX-License-Identifier: Apache-2.0
#include "spec/decoder_spec.h"

#include "spec/spec_case.h"

namespace ballast {
namespace {

using testing::attention_of;
using testing::ffn_of;
using testing::small_error;
using testing::small_spec;
using testing::windows_of;
using Windows = std::vector<int64_t>;

TEST(DecoderSpec, TakesSinksClippingAndNormsWithoutWeights) {
  const DecoderSpec plain = small_spec({"use_qk_norm=true"});
  const DecoderSpec spec = small_spec({"use_qk_norm=true", "qk_norm_with_scale=false", "attention_sink=true",
                                       "mlp_activations_limit=7", "logits_dot_in_fp32=true"});
  EXPECT_TRUE(attention_of(spec, 3).has_sinks);
  EXPECT_TRUE(attention_of(spec, 3).q_norm.exists());
  EXPECT_FALSE(attention_of(spec, 3).q_norm.has_weight);
  EXPECT_FALSE(attention_of(spec, 3).k_norm.has_weight);
  EXPECT_TRUE(spec.layers[3].pre_mixer_norm.has_weight);
  EXPECT_EQ(ffn_of(spec, 0).activation_limit, 7.0);
  EXPECT_EQ(ffn_of(small_spec({"mlp_activations_limit=0"}), 0).activation_limit, 0.0);
  EXPECT_TRUE(spec.logits_dot_in_fp32);
  // 4 layers: a sink a query head more, two norms of width 8 less.
  EXPECT_EQ(count_parameters(spec) - count_parameters(plain), 4 * (4 - 2 * 8));
  EXPECT_EQ(
      small_error({"mlp_activations=[relu]", "mlp_activations_limit=7"}),
      "config: command line mlp_activations_limit: only a gated feed-forward layer is clipped; got 7, need -1, or "
      "mlp_activations=[relu, linear]");
}

TEST(DecoderSpec, TakesThePatternOfTheFamilyOnly) {
  EXPECT_EQ(small_spec({"inhomogeneous_layer_cycle_interval=1"}).layers.size(), 4);
  EXPECT_EQ(small_error({"inhomogeneous_layer_cycle_interval=4"}),
            "config: command line inhomogeneous_layer_cycle_interval: decoder_block=llama2 has another pattern of "
            "layers; got 4, need 1");
  EXPECT_EQ(small_spec({"decoder_block=olmo3", "sliding_window_size=8", "inhomogeneous_layer_cycle_interval=4"})
                .layers.size(),
            4);
}

TEST(DecoderSpec, DescribesTheDecoderOfBaseYml) {
  const DecoderSpec spec = testing::spec_of({});
  EXPECT_EQ(spec.vocab_size, 32000);
  EXPECT_EQ(spec.emb_dim, 2048);
  EXPECT_EQ(spec.embedding_scale, 1.0);
  EXPECT_FALSE(spec.is_head_tied);
  EXPECT_EQ(spec.logits_scale, 1.0);
  EXPECT_EQ(spec.final_logits_soft_cap, 0.0);
  EXPECT_EQ(spec.final_norm.name, "norm");
  ASSERT_EQ(spec.layers.size(), 16);
  ASSERT_EQ(spec.ropes.size(), 1);
  EXPECT_EQ(spec.ropes[0].theta, 10000.0);
  EXPECT_EQ(spec.ropes[0].rotary_dim, 128);
  EXPECT_EQ(spec.ropes[0].scaling, RopeScaling::kDefault);
  EXPECT_FALSE(spec.ropes[0].is_interleaved);
  const LayerSpec& layer = spec.layers[0];
  EXPECT_FALSE(layer.is_parallel);
  EXPECT_EQ(layer.pre_mixer_norm.name, "input_layernorm");
  EXPECT_EQ(layer.pre_mixer_norm.epsilon, 1e-5);
  EXPECT_EQ(layer.pre_mixer_norm.form, NormForm::kCastThenScale);
  EXPECT_EQ(layer.pre_ffn_norm.name, "post_attention_layernorm");
  EXPECT_FALSE(layer.post_mixer_norm.exists());
  EXPECT_FALSE(layer.post_ffn_norm.exists());
  const AttentionSpec& attention = attention_of(spec, 15);
  EXPECT_EQ(attention.num_query_heads, 16);
  EXPECT_EQ(attention.num_kv_heads, 16);
  EXPECT_EQ(attention.head_dim, 128);
  EXPECT_EQ(attention.value_head_dim, 128);
  EXPECT_EQ(attention.sliding_window, 0);
  EXPECT_DOUBLE_EQ(attention.scale, 0.08838834764831845);  // 128^(-1/2)
  EXPECT_EQ(attention.rope, 0);
  EXPECT_EQ(attention.qk_norm, QkNormKind::kNone);
  EXPECT_FALSE(attention.q_norm.exists());
  EXPECT_FALSE(attention.has_qkv_bias);
  EXPECT_FALSE(attention.has_output_bias);
  EXPECT_FALSE(attention.has_sinks);
  EXPECT_EQ(ffn_of(spec, 0).mlp_dim, 7168);
  EXPECT_EQ(ffn_of(spec, 0).activation, Activation::kSilu);
  EXPECT_TRUE(ffn_of(spec, 0).is_gated);
  EXPECT_FALSE(ffn_of(spec, 0).has_bias);
}

TEST(DecoderSpec, NormalisesQwen3QueriesAndKeysHeadByHead) {
  const DecoderSpec spec = small_spec({"decoder_block=qwen3", "use_qk_norm=true", "normalization_layer_epsilon=1e-6"});
  const AttentionSpec& attention = attention_of(spec, 0);
  EXPECT_EQ(attention.qk_norm, QkNormKind::kPerHead);
  EXPECT_EQ(attention.q_norm.name, "q_norm");
  EXPECT_EQ(attention.k_norm.name, "k_norm");
  EXPECT_EQ(attention.q_norm.epsilon, 1e-6);
  EXPECT_EQ(spec.layers[0].pre_mixer_norm.name, "input_layernorm");
}

TEST(DecoderSpec, PutsTheNormsOfOlmo3BehindItsLayers) {
  const DecoderSpec spec = small_spec({"decoder_block=olmo3", "use_qk_norm=true", "sliding_window_size=16"});
  for (const LayerSpec& layer : spec.layers) {
    EXPECT_FALSE(layer.pre_mixer_norm.exists());
    EXPECT_FALSE(layer.pre_ffn_norm.exists());
    EXPECT_EQ(layer.post_mixer_norm.name, "post_attention_layernorm");
    EXPECT_EQ(layer.post_ffn_norm.name, "post_feedforward_layernorm");
    EXPECT_EQ(layer.post_ffn_norm.form, NormForm::kScaleThenCast);
  }
  EXPECT_EQ(spec.final_norm.form, NormForm::kScaleThenCast);
  EXPECT_EQ(attention_of(spec, 0).qk_norm, QkNormKind::kWholeProjection);
  EXPECT_TRUE(spec.ropes.at(0).multiplies_in_fp32);
  EXPECT_EQ(windows_of(spec), (Windows{16, 16, 16, 0}));
}

TEST(DecoderSpec, RunsAttentionAndFfnOfTheDefaultBlockSideBySide) {
  const DecoderSpec spec = small_spec({"decoder_block=default"});
  for (const LayerSpec& layer : spec.layers) {
    EXPECT_TRUE(layer.is_parallel);
    EXPECT_EQ(layer.pre_mixer_norm.name, "input_layernorm");
    EXPECT_FALSE(layer.pre_ffn_norm.exists() || layer.post_mixer_norm.exists() || layer.post_ffn_norm.exists());
  }
  EXPECT_EQ(small_error({"decoder_block=default", "use_post_ffw_norm=true"}),
            "config: command line use_post_ffw_norm: decoder_block=default has one norm a layer; got true, need false");
}

TEST(DecoderSpec, AddsNormsBehindTheLayersOnRequest) {
  const LayerSpec both = small_spec({"use_post_attn_norm=true", "use_post_ffw_norm=true"}).layers[0];
  EXPECT_EQ(both.pre_mixer_norm.name, "input_layernorm");
  EXPECT_EQ(both.post_mixer_norm.name, "post_attention_layernorm");
  EXPECT_EQ(both.pre_ffn_norm.name, "pre_feedforward_layernorm");
  EXPECT_EQ(both.post_ffn_norm.name, "post_feedforward_layernorm");
  const LayerSpec one = small_spec({"use_post_ffw_norm=true"}).layers[0];
  EXPECT_FALSE(one.post_mixer_norm.exists());
  EXPECT_EQ(one.pre_ffn_norm.name, "pre_feedforward_layernorm");
}

TEST(DecoderSpec, SlidesAllLayersOfLocalSlidingAttention) {
  EXPECT_EQ(windows_of(small_spec({"attention_type=local_sliding", "sliding_window_size=5"})), (Windows{5, 5, 5, 5}));
  EXPECT_EQ(small_error({"attention_type=local_sliding"}),
            "config: default sliding_window_size: layers with sliding attention need a window; got 0, need 1 or more");
}

TEST(DecoderSpec, LetsLayerTypesDecideLayerByLayer) {
  const std::string types = "layer_types=[full_attention,sliding_attention,sliding_attention,full_attention]";
  EXPECT_EQ(windows_of(small_spec({types, "sliding_window_size=7"})), (Windows{0, 7, 7, 0}));
  EXPECT_EQ(windows_of(small_spec({"decoder_block=olmo3", types, "sliding_window_size=7"})), (Windows{0, 7, 7, 0}));
  EXPECT_EQ(small_error({"layer_types=[full_attention]"}),
            "config: command line layer_types: one entry a layer; got 1 entries, need 4");
  EXPECT_EQ(small_error({"layer_types=[full_attention,full,full_attention,full_attention]"}),
            "config: command line layer_types: unknown kind of attention; got full, need full_attention or "
            "sliding_attention");
}

TEST(DecoderSpec, WarnsOfAWindowWithoutSlidingLayers) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(windows_of(small_spec({"sliding_window_size=5"})), (Windows{0, 0, 0, 0}));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("sliding_window_size has no effect"), std::string::npos) << log;
}

TEST(DecoderSpec, LeavesTheRotationOutOfEveryNthLayer) {
  const DecoderSpec spec = small_spec({"nope_layer_interval=2"});
  EXPECT_EQ(attention_of(spec, 0).rope, 0);
  EXPECT_EQ(attention_of(spec, 1).rope, -1);
  EXPECT_EQ(attention_of(spec, 2).rope, 0);
  EXPECT_EQ(attention_of(spec, 3).rope, -1);
}

TEST(DecoderSpec, SharesEqualRotationsAndKeepsUnlikeOnesApart) {
  const std::vector<std::string> olmo = {"decoder_block=olmo3", "sliding_window_size=16", "rope_type=yarn"};
  EXPECT_EQ(small_spec(olmo).ropes.size(), 1);
  std::vector<std::string> local = olmo;
  local.emplace_back("local_rope_type=default");
  const DecoderSpec spec = small_spec(local);
  ASSERT_EQ(spec.ropes.size(), 2);
  EXPECT_EQ(spec.ropes.at(static_cast<size_t>(attention_of(spec, 0).rope)).scaling, RopeScaling::kDefault);
  EXPECT_EQ(spec.ropes.at(static_cast<size_t>(attention_of(spec, 3).rope)).scaling, RopeScaling::kYarn);
}

TEST(DecoderSpec, ReadsActivations) {
  const auto ffn = [](const std::string& list) { return ffn_of(small_spec({"mlp_activations=" + list}), 0); };
  EXPECT_EQ(ffn("[gelu,linear]").activation, Activation::kGeluTanh);
  EXPECT_TRUE(ffn("[gelu,linear]").is_gated);
  EXPECT_EQ(ffn("[gelu]").activation, Activation::kGeluTanh);
  EXPECT_FALSE(ffn("[gelu]").is_gated);
  EXPECT_EQ(ffn("[gelu_exact]").activation, Activation::kGelu);
  EXPECT_EQ(ffn("[relu,linear]").activation, Activation::kRelu);
  EXPECT_EQ(ffn("[swish,linear]").activation, Activation::kSilu);
  EXPECT_EQ(ffn("[linear]").activation, Activation::kLinear);
  EXPECT_EQ(small_error({"mlp_activations=[tanhh,linear]"}),
            "config: command line mlp_activations: unknown activation; got tanhh, need silu, gelu, gelu_exact, relu or "
            "linear");
  EXPECT_EQ(small_error({"mlp_activations=[silu,gelu]"}),
            "config: command line mlp_activations: not a feed-forward layer of this decoder; got [silu, gelu], need "
            "[activation] or [activation, linear]");
  EXPECT_NE(small_error({"mlp_activations=[]"}), "no error");
}

TEST(DecoderSpec, DividesOnlyTiedLogitsByTheRootOfTheWidth) {
  EXPECT_EQ(small_spec({"logits_via_embedding=true", "base_emb_dim=16"}).logits_scale, 0.25);
  EXPECT_TRUE(small_spec({"logits_via_embedding=true"}).is_head_tied);
  EXPECT_EQ(small_spec({"logits_via_embedding=true", "normalize_embedding_logits=false"}).logits_scale, 1.0);
  EXPECT_EQ(small_spec({"logits_via_embedding=false"}).logits_scale, 1.0);
}

TEST(DecoderSpec, PassesOnWhatKeysSay) {
  const DecoderSpec spec =
      small_spec({"final_logits_soft_cap=30", "attn_logits_soft_cap=50", "attention_bias=true", "mlp_bias=true",
                  "dense_init_scale=0.5", "dropout_rate=0.25", "use_qk_norm=true"});
  EXPECT_EQ(spec.final_logits_soft_cap, 30);
  EXPECT_EQ(spec.dense_init_scale, 0.5);
  EXPECT_EQ(spec.dropout_rate, 0.25);
  EXPECT_EQ(attention_of(spec, 0).logits_soft_cap, 50);
  EXPECT_TRUE(attention_of(spec, 0).has_qkv_bias);
  EXPECT_TRUE(attention_of(spec, 0).has_output_bias);
  EXPECT_TRUE(ffn_of(spec, 0).has_bias);
  EXPECT_EQ(attention_of(spec, 0).qk_norm, QkNormKind::kPerHead);
  EXPECT_EQ(small_spec({"dropout_rate=0.25", "enable_dropout=false"}).dropout_rate, 0.0);
}

TEST(DecoderSpec, FollowsTheScaledSizes) {
  // Scale 8: twice the layers, heads, widths of base_*.
  const DecoderSpec spec = small_spec({"global_parameter_scale=8"});
  EXPECT_EQ(spec.emb_dim, 64);
  EXPECT_EQ(spec.layers.size(), 8);
  EXPECT_EQ(attention_of(spec, 0).num_query_heads, 8);
  EXPECT_EQ(attention_of(spec, 0).num_kv_heads, 4);
  EXPECT_EQ(ffn_of(spec, 0).mlp_dim, 96);
}

TEST(DecoderSpec, RefusesHeadsThatDoNotDivide) {
  EXPECT_EQ(
      small_error({"base_num_kv_heads=3"}),
      "config: command line base_num_kv_heads: query heads do not share the key/value heads evenly; got 3, need a "
      "divisor of the 4 query heads");
  EXPECT_EQ(small_error({"head_dim=7"}),
            "config: command line head_dim: rotary embeddings turn pairs of channels; got 7 channels (head_dim * "
            "partial_rotary_factor), need an even number > 0");
}

TEST(DecoderSpec, RefusesADecoderItDoesNotHave) {
  Config config = testing::config_of_small();
  config.decoder_block = "transformer";
  try {
    make_decoder_spec(config);
    ADD_FAILURE() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "config: default decoder_block: no such decoder here; got transformer, need default, llama2, mistral, "
                 "mixtral, qwen3, qwen3_moe, olmo3, olmoe, flex_olmo, gpt_oss or deepseek");
  }
}

TEST(CountParameters, CountsASmallDecoderByHand) {
  // D 32, V 100, 4 layers, 4 query and 2 key/value heads of width 8, FFN 48.
  //   embedding and head   2 * 100 * 32                = 6400
  //   a layer: attention   32 * 8 * (4 + 2 + 2 + 4)    = 3072
  //            FFN         3 * 32 * 48                 = 4608
  //            norms       2 * 32                      = 64
  //   final norm                                         32
  constexpr int64_t kLlama = 6400 + 4 * (3072 + 4608 + 64) + 32;
  EXPECT_EQ(count_parameters(small_spec({})), kLlama);
  EXPECT_EQ(count_parameters(small_spec({"logits_via_embedding=true"})), kLlama - 3200);
  EXPECT_EQ(count_parameters(small_spec({"decoder_block=default"})), kLlama - 4 * 32);
  // biases: q 32, k and v 16 each, o 32
  EXPECT_EQ(count_parameters(small_spec({"attention_bias=true"})), kLlama + 4 * 96);
  // biases: gate and up 48 each, down 32
  EXPECT_EQ(count_parameters(small_spec({"mlp_bias=true"})), kLlama + 4 * 128);
  EXPECT_EQ(count_parameters(small_spec({"mlp_activations=[gelu]"})), kLlama - 4 * 32 * 48);
  EXPECT_EQ(count_parameters(small_spec({"mlp_activations=[gelu]", "mlp_bias=true"})), kLlama - 4 * 32 * 48 + 4 * 80);
  EXPECT_EQ(count_parameters(small_spec({"use_qk_norm=true"})), kLlama + 4 * 16);
  // whole projections: q 32, k 16
  EXPECT_EQ(count_parameters(small_spec({"decoder_block=olmo3", "use_qk_norm=true", "sliding_window_size=4"})),
            kLlama + 4 * 48);
  EXPECT_EQ(count_parameters(small_spec({"use_post_attn_norm=true"})), kLlama + 4 * 32);
}

std::vector<std::string> latent_pairs(const std::vector<std::string>& more) {
  std::vector<std::string> pairs = {
      "decoder_block=deepseek", "attention_type=mla", "base_num_kv_heads=4", "kv_lora_rank=8",
      "qk_nope_head_dim=12",    "qk_rope_head_dim=4", "v_head_dim=6"};
  pairs.insert(pairs.end(), more.begin(), more.end());
  return pairs;
}

TEST(DecoderSpec, LatentAttentionFollowsItsKeys) {
  const DecoderSpec spec = small_spec(latent_pairs({"q_lora_rank=5", "attention_bias=true"}));
  const auto& attention = std::get<MlaSpec>(spec.layers.at(3).mixer);
  EXPECT_EQ(attention.num_heads, 4);
  EXPECT_EQ(attention.q_rank, 5);
  EXPECT_EQ(attention.kv_rank, 8);
  EXPECT_EQ(attention.nope_dim, 12);
  EXPECT_EQ(attention.rope_dim, 4);
  EXPECT_EQ(attention.value_head_dim, 6);
  EXPECT_EQ(attention.scale, 0.25);
  EXPECT_EQ(attention.rope, 0);
  EXPECT_EQ(attention.q_norm.name, "q_a_layernorm");
  EXPECT_TRUE(attention.has_bias);
  EXPECT_EQ(spec.ropes.size(), 1);
  const DecoderSpec plain = small_spec(latent_pairs({"nope_layer_interval=4"}));
  EXPECT_EQ(std::get<MlaSpec>(plain.layers.at(0).mixer).q_rank, 0);
  EXPECT_EQ(std::get<MlaSpec>(plain.layers.at(2).mixer).rope, 0);
  EXPECT_EQ(std::get<MlaSpec>(plain.layers.at(3).mixer).rope, -1);
  EXPECT_EQ(window_of(plain.layers.at(0).mixer), 0);
}

// D 32, 4 heads: q_a 32 * 5 + 5 + its norm 5, q_b 5 * 64; kv_a 32 * 12 + 12 + the norm 8, kv_b 8 * 72; o 24 * 32 + 32.
TEST(DecoderSpec, CountsTheParametersOfLatentAttention) {
  const auto mixers = [](const std::vector<std::string>& more) {
    return (count_parameters(small_spec(latent_pairs(more))) - count_parameters(small_spec({"base_num_kv_heads=4"}))) /
               4 +
           4 * 32 * 32;
  };
  const int64_t kv_and_o = 32 * 12 + 8 + 8 * 72 + 24 * 32;
  EXPECT_EQ(mixers({"q_lora_rank=5", "attention_bias=true"}), 32 * 5 + 5 + 5 + 5 * 64 + kv_and_o + 12 + 32);
  EXPECT_EQ(mixers({}), 32 * 64 + kv_and_o);
}

TEST(DecoderSpec, LatentAttentionRefusesWhatItHasNot) {
  const auto error = [](const std::vector<std::string>& more) { return small_error(latent_pairs(more)); };
  EXPECT_EQ(
      error({"base_num_kv_heads=2"}),
      "config: command line base_num_kv_heads: every head of latent attention has its own keys and values; got 2, "
      "need the 4 query heads");
  EXPECT_EQ(error({"attention_type=global"}),
            "config: command line attention_type: decoder_block=deepseek does not attend this way; got global, need "
            "mla");
  EXPECT_EQ(error({"decoder_block=llama2"}),
            "config: command line attention_type: decoder_block=llama2 does not attend this way; got mla, need global "
            "or local_sliding");
  EXPECT_EQ(
      error({"decoder_block=olmo3", "sliding_window_size=4"}),
      "config: command line attention_type: decoder_block=olmo3 does not attend this way; got mla, need global or "
      "local_sliding");
  EXPECT_EQ(error({"use_qk_norm=true"}),
            "config: command line use_qk_norm: latent attention has none (attention_type=mla); got true, need false");
  EXPECT_EQ(
      error({"attention_sink=true"}),
      "config: command line attention_sink: latent attention has none (attention_type=mla); got true, need false");
  EXPECT_EQ(error({"attn_logits_soft_cap=5"}),
            "config: command line attn_logits_soft_cap: latent attention has none (attention_type=mla); got 5, need 0");
  EXPECT_EQ(error({"layer_types=[full_attention, full_attention, full_attention, full_attention]"}),
            "config: command line layer_types: latent attention has none (attention_type=mla); got [full_attention, "
            "full_attention, full_attention, full_attention], need []");
  EXPECT_EQ(
      error({"qk_rope_head_dim=3"}),
      "config: command line qk_rope_head_dim: rotary embeddings turn pairs of channels; got 3, need an even number "
      "> 0");
  EXPECT_EQ(
      error({"partial_rotary_factor=0.5"}),
      "config: command line partial_rotary_factor: qk_rope_head_dim is what rotates in latent attention; got 0.5, "
      "need 1");
}

}  // namespace
}  // namespace ballast
