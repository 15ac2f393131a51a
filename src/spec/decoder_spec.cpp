// SPDX-License-Identifier: Apache-2.0
#include "spec/decoder_spec.h"

#include <algorithm>
#include <cmath>

#include "config/config.h"
#include "config/value.h"
#include "errors/log.h"
#include "spec/family.h"
#include "spec/ffn_spec.h"
#include "spec/rope_spec.h"
#include "spec/spec_error.h"

namespace ballast {
namespace {

void check_heads(const Config& config) {
  if (config.num_query_heads % config.num_kv_heads != 0) {
    fail_spec(config, "base_num_kv_heads", "query heads do not share the key/value heads evenly",
              to_text(config.num_kv_heads), "a divisor of the " + to_text(config.num_query_heads) + " query heads");
  }
}

void check_cycle(const Config& config, const Family& family) {
  const int64_t given = config.inhomogeneous_layer_cycle_interval, period = family.full_attention_period;
  if (given == 1 || given == period) return;
  fail_spec(config, "inhomogeneous_layer_cycle_interval",
            "decoder_block=" + config.decoder_block + " has another pattern of layers", to_text(given),
            period > 0 ? "1 or " + to_text(period) : "1");
}

/// layer_types, one entry a layer, as "does this layer slide".
std::vector<bool> read_layer_types(const Config& config) {
  const auto& types = config.layer_types;
  if (static_cast<int64_t>(types.size()) != config.num_decoder_layers) {
    fail_spec(config, "layer_types", "one entry a layer", std::to_string(types.size()) + " entries",
              to_text(config.num_decoder_layers));
  }
  std::vector<bool> slides;
  for (const std::string& type : types) {
    if (type != "sliding_attention" && type != "full_attention") {
      fail_spec(config, "layer_types", "unknown kind of attention", type, "full_attention or sliding_attention");
    }
    slides.push_back(type == "sliding_attention");
  }
  return slides;
}

/// Which layers attend through a window: layer_types, else the family's pattern, else attention_type for all.
std::vector<bool> find_sliding_layers(const Config& config, const Family& family) {
  const auto num_layers = static_cast<size_t>(config.num_decoder_layers);
  std::vector<bool> slides(num_layers, config.attention_type == "local_sliding");
  if ((config.attention_type == "mla") != family.attends_by_latent) {
    fail_spec(config, "attention_type", "decoder_block=" + config.decoder_block + " does not attend this way",
              config.attention_type, family.attends_by_latent ? "mla" : "global or local_sliding");
  }
  if (!config.layer_types.empty()) {
    slides = read_layer_types(config);
  } else if (family.full_attention_period > 0) {
    for (size_t i = 0; i < num_layers; ++i) {
      slides[i] = (static_cast<int64_t>(i) + 1) % family.full_attention_period != 0;
    }
  }
  const bool any_slides = std::find(slides.begin(), slides.end(), true) != slides.end();
  if (any_slides && config.sliding_window_size < 1) {
    fail_spec(config, "sliding_window_size", "layers with sliding attention need a window",
              to_text(config.sliding_window_size), "1 or more");
  }
  if (!any_slides && config.sliding_window_size > 0) {
    warn_once("sliding_window_size",
              "sliding_window_size has no effect: no layer slides (attention_type, layer_types)");
  }
  if (!any_slides && config.local_rope_max_timescale > 0) {
    warn_once("local_rope_max_timescale",
              "local_rope_max_timescale has no effect: no layer slides (attention_type, layer_types)");
  }
  return slides;
}

NormSpec make_norm(const Config& config, const Family& family, const std::string& name) {
  NormSpec norm;
  norm.name = name;
  norm.form = family.norm_form;
  norm.epsilon = config.normalization_layer_epsilon;
  return norm;
}

/// Everything of an attention layer but its window and its rotary embedding.
AttentionSpec make_attention(const Config& config, const Family& family) {
  AttentionSpec attention;
  attention.num_query_heads = config.num_query_heads;
  attention.num_kv_heads = config.num_kv_heads;
  attention.head_dim = config.head_dim;
  attention.value_head_dim = config.head_dim;
  attention.scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
  attention.logits_soft_cap = config.attn_logits_soft_cap;
  attention.has_qkv_bias = config.attention_bias;
  attention.has_output_bias = config.attention_bias;
  attention.has_sinks = config.attention_sink;
  if (config.use_qk_norm) {
    attention.qk_norm = family.qk_norm;
    attention.q_norm = make_norm(config, family, "q_norm");
    attention.k_norm = make_norm(config, family, "k_norm");
    attention.q_norm.has_weight = attention.k_norm.has_weight = config.qk_norm_with_scale;
  }
  return attention;
}

void check_latent(const Config& config) {
  const auto refuse = [&](const std::string& key, const std::string& got, const std::string& need) {
    fail_spec(config, key, "latent attention has none (attention_type=mla)", got, need);
  };
  if (config.num_query_heads != config.num_kv_heads) {
    fail_spec(config, "base_num_kv_heads", "every head of latent attention has its own keys and values",
              to_text(config.num_kv_heads), "the " + to_text(config.num_query_heads) + " query heads");
  }
  if (!config.layer_types.empty()) refuse("layer_types", to_text(config.layer_types), "[]");
  if (config.use_qk_norm) refuse("use_qk_norm", "true", "false");
  if (config.attention_sink) refuse("attention_sink", "true", "false");
  if (config.attn_logits_soft_cap > 0) refuse("attn_logits_soft_cap", to_text(config.attn_logits_soft_cap), "0");
}

/// Everything of latent attention but its rotary embedding. The norms of the latents have transformers' epsilon, which
/// no model changes.
MlaSpec make_latent_attention(const Config& config, const Family& family) {
  check_latent(config);
  MlaSpec attention;
  attention.num_heads = config.num_query_heads;
  attention.q_rank = config.q_lora_rank;
  attention.kv_rank = config.kv_lora_rank;
  attention.nope_dim = config.qk_nope_head_dim;
  attention.rope_dim = config.qk_rope_head_dim;
  attention.value_head_dim = config.v_head_dim;
  attention.scale = latent_scale_factor(config) / std::sqrt(static_cast<double>(attention.head_dim()));
  if (attention.q_rank > 0) attention.q_norm = make_norm(config, family, "q_a_layernorm");
  attention.kv_norm = make_norm(config, family, "kv_a_layernorm");
  attention.q_norm.epsilon = attention.kv_norm.epsilon = 1e-6;
  attention.has_bias = config.attention_bias;
  return attention;
}

/// Norms under the names that Hugging Face gives them; with norms on both sides the names are Gemma's.
void set_norms(const Config& config, const Family& family, LayerSpec& layer) {
  const auto norm = [&](const std::string& name) { return make_norm(config, family, name); };
  if (family.block_form == BlockForm::kPostNorm) {
    layer.post_mixer_norm = norm("post_attention_layernorm");
    layer.post_ffn_norm = norm("post_feedforward_layernorm");
    return;
  }
  layer.pre_mixer_norm = norm("input_layernorm");
  const bool has_post_norm = config.use_post_attn_norm || config.use_post_ffw_norm;
  if (family.block_form == BlockForm::kParallel) {
    if (has_post_norm) {
      fail_spec(config, config.use_post_attn_norm ? "use_post_attn_norm" : "use_post_ffw_norm",
                "decoder_block=" + config.decoder_block + " has one norm a layer", "true", "false");
    }
    layer.is_parallel = true;
    return;
  }
  layer.pre_ffn_norm = norm(has_post_norm ? "pre_feedforward_layernorm" : "post_attention_layernorm");
  if (config.use_post_attn_norm) layer.post_mixer_norm = norm("post_attention_layernorm");
  if (config.use_post_ffw_norm) layer.post_ffn_norm = norm("post_feedforward_layernorm");
}

/// Index of the layers' rotary embedding in spec.ropes, added there on first use and shared where equal.
int find_or_add_rope(const RopeSpec& rope, std::vector<RopeSpec>& ropes) {
  const auto found = std::find(ropes.begin(), ropes.end(), rope);
  const auto index = static_cast<int>(found - ropes.begin());
  if (found == ropes.end()) ropes.push_back(rope);
  return index;
}

void add_layers(const Config& config, const Family& family, DecoderSpec& spec) {
  const std::vector<bool> slides = find_sliding_layers(config, family);
  LayerSpec layer;
  set_norms(config, family, layer);
  const std::vector<FfnSpec> ffns = make_ffns(config, family);
  for (size_t i = 0; i < slides.size(); ++i) {
    const bool has_rope =
        config.nope_layer_interval <= 0 || (static_cast<int64_t>(i) + 1) % config.nope_layer_interval != 0;
    if (family.attends_by_latent) {
      MlaSpec attention = make_latent_attention(config, family);
      if (has_rope) {
        attention.rope = find_or_add_rope(make_latent_rope_spec(config, family.rotates_in_fp32), spec.ropes);
      }
      layer.mixer = attention;
    } else {
      AttentionSpec attention = make_attention(config, family);
      if (slides[i]) attention.sliding_window = config.sliding_window_size;
      if (has_rope) {
        const RopeReach reach = slides[i] ? RopeReach::kSlidingLayers : RopeReach::kFullLayers;
        attention.rope = find_or_add_rope(make_rope_spec(config, reach, family.rotates_in_fp32), spec.ropes);
      }
      layer.mixer = attention;
    }
    layer.ffn = ffns[i];
    spec.layers.push_back(layer);
  }
}

int64_t count_norm(const NormSpec& norm, int64_t width) {
  return norm.exists() && norm.has_weight ? width : 0;
}

int64_t count_attention(const AttentionSpec& attention, int64_t emb_dim) {
  const int64_t query_width = attention.num_query_heads * attention.head_dim;
  const int64_t key_width = attention.num_kv_heads * attention.head_dim;
  const int64_t value_width = attention.num_kv_heads * attention.value_head_dim;
  const int64_t output_width = attention.num_query_heads * attention.value_head_dim;
  int64_t count = emb_dim * (query_width + key_width + value_width + output_width);
  if (attention.has_qkv_bias) count += query_width + key_width + value_width;
  if (attention.has_output_bias) count += emb_dim;
  if (attention.has_sinks) count += attention.num_query_heads;
  const bool is_per_head = attention.qk_norm == QkNormKind::kPerHead;
  count += count_norm(attention.q_norm, is_per_head ? attention.head_dim : query_width);
  count += count_norm(attention.k_norm, is_per_head ? attention.head_dim : key_width);
  return count;
}

int64_t count_attention(const MlaSpec& attention, int64_t emb_dim) {
  const int64_t query_width = attention.num_heads * attention.head_dim();
  const int64_t kv_width = attention.num_heads * (attention.nope_dim + attention.value_head_dim);
  const int64_t latent_width = attention.kv_rank + attention.rope_dim;
  int64_t count = attention.q_rank > 0 ? attention.q_rank * (emb_dim + query_width) : emb_dim * query_width;
  count += emb_dim * latent_width + attention.kv_rank * kv_width;
  count += emb_dim * attention.num_heads * attention.value_head_dim;
  if (attention.has_bias) count += attention.q_rank + latent_width + emb_dim;
  return count + count_norm(attention.q_norm, attention.q_rank) + count_norm(attention.kv_norm, attention.kv_rank);
}

int64_t count_ffn(const MoeFfnSpec& ffn, int64_t emb_dim) {
  const RouterSpec& router = ffn.router;
  const int64_t width = ffn.latent_dim > 0 ? ffn.latent_dim : emb_dim;
  const int64_t expert = 3 * width * ffn.mlp_dim + (ffn.has_bias ? 2 * ffn.mlp_dim + width : 0);
  int64_t count = router.num_experts * (emb_dim + (router.has_bias ? 1 : 0) + expert);
  if (ffn.latent_dim > 0) count += 2 * emb_dim * ffn.latent_dim;
  return count + 3 * emb_dim * ffn.shared_dim + (ffn.has_shared_gate ? emb_dim : 0);
}

int64_t count_ffn(const DenseFfnSpec& ffn, int64_t emb_dim) {
  const int64_t num_inputs = ffn.is_gated ? 2 : 1;
  const int64_t biases = ffn.has_bias ? num_inputs * ffn.mlp_dim + emb_dim : 0;
  return (num_inputs + 1) * emb_dim * ffn.mlp_dim + biases;
}

int64_t count_layer(const LayerSpec& layer, int64_t emb_dim) {
  int64_t count = 0;
  for (const NormSpec* norm :
       {&layer.pre_mixer_norm, &layer.post_mixer_norm, &layer.pre_ffn_norm, &layer.post_ffn_norm}) {
    count += count_norm(*norm, emb_dim);
  }
  count += std::visit([&](const auto& mixer) { return count_attention(mixer, emb_dim); }, layer.mixer);
  return count + std::visit([&](const auto& ffn) { return count_ffn(ffn, emb_dim); }, layer.ffn);
}

MtpSpec make_mtp(const Config& config, const LayerSpec& last_layer) {
  MtpSpec mtp;
  if (config.mtp_eval_target_module > config.mtp_num_layers) {
    fail_spec(config, "mtp_eval_target_module", "there is no such module", to_text(config.mtp_eval_target_module),
              "at most mtp_num_layers=" + to_text(config.mtp_num_layers));
  }
  if (config.mtp_num_layers == 0) return mtp;
  mtp.layers.assign(static_cast<size_t>(config.mtp_num_layers), last_layer);
  mtp.loss_weight = config.mtp_loss_scaling_factor;
  mtp.eval_module = config.mtp_eval_target_module;
  return mtp;
}

}  // namespace

DecoderSpec make_decoder_spec(const Config& config) {
  const Family& family = family_of(config);
  check_heads(config);
  check_cycle(config, family);
  DecoderSpec spec;
  spec.vocab_size = config.vocab_size;
  spec.emb_dim = config.emb_dim;
  spec.final_norm = make_norm(config, family, "norm");
  spec.is_head_tied = config.logits_via_embedding;
  if (config.logits_via_embedding && config.normalize_embedding_logits) {
    spec.logits_scale = 1.0 / std::sqrt(static_cast<double>(config.emb_dim));
  }
  spec.final_logits_soft_cap = config.final_logits_soft_cap;
  spec.logits_dot_in_fp32 = config.logits_dot_in_fp32;
  spec.dense_init_scale = config.dense_init_scale;
  spec.dropout_rate = config.enable_dropout ? config.dropout_rate : 0.0;
  add_layers(config, family, spec);
  spec.mtp = make_mtp(config, spec.layers.back());
  const auto is_routed = [](const LayerSpec& layer) { return std::holds_alternative<MoeFfnSpec>(layer.ffn); };
  if (std::any_of(spec.layers.begin(), spec.layers.end(), is_routed)) spec.moe = make_moe_training(config, family);
  return spec;
}

int64_t window_of(const MixerSpec& mixer) {
  const auto* attention = std::get_if<AttentionSpec>(&mixer);
  return attention == nullptr ? 0 : attention->sliding_window;
}

int64_t count_moe_layers(const DecoderSpec& spec) {
  const auto has_experts = [](const LayerSpec& layer) { return std::holds_alternative<MoeFfnSpec>(layer.ffn); };
  return std::count_if(spec.layers.begin(), spec.layers.end(), has_experts) +
         std::count_if(spec.mtp.layers.begin(), spec.mtp.layers.end(), has_experts);
}

int64_t count_parameters(const DecoderSpec& spec) {
  int64_t count = spec.vocab_size * spec.emb_dim * (spec.is_head_tied ? 1 : 2);
  count += count_norm(spec.final_norm, spec.emb_dim);
  for (const LayerSpec& layer : spec.layers) count += count_layer(layer, spec.emb_dim);
  for (const LayerSpec& layer : spec.mtp.layers) {
    count += count_layer(layer, spec.emb_dim) + 2 * count_norm(spec.final_norm, spec.emb_dim) +
             2 * spec.emb_dim * spec.emb_dim;
  }
  return count;
}

}  // namespace ballast
