// SPDX-License-Identifier: Apache-2.0
#include "spec/hf_export.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "config/hf_alias.h"
#include "config/hf_config.h"
#include "config/key_table.h"
#include "config/resolve.h"
#include "config/value.h"
#include "errors/errors.h"
#include "spec/decoder_spec.h"
#include "spec/spec_error.h"

namespace ballast {
namespace {

using Json = nlohmann::ordered_json;

int rope_of(const LayerSpec& layer) {
  return std::visit([](const auto& mixer) { return mixer.rope; }, layer.mixer);
}

/// A whole number without a decimal point, as transformers asks for in some fields.
Json whole_or_real(double value) {
  constexpr double kLargestExact = 9007199254740992.0;  // 2^53
  if (std::trunc(value) == value && std::abs(value) <= kLargestExact) return static_cast<int64_t>(value);
  return value;
}

/// The key that holds the size a base_ key comes to; any other key itself.
std::string sized_key(const std::string& key) {
  constexpr std::string_view kBase = "base_";
  return key.starts_with(kBase) ? key.substr(kBase.size()) : key;
}

Json field_value(const Config& config, const HfField& field) {
  const KeyInfo* info = find_key(sized_key(field.key));
  BALLAST_CHECK(info != nullptr, field.key);
  const TypedValue value = get_value(config, *info);
  if (!field.null_value.empty() && to_text(value) == field.null_value) return Json();
  if (const auto* number = std::get_if<double>(&value)) {
    return field.type == HfType::kInteger ? whole_or_real(*number) : Json(*number);
  }
  if (const auto* number = std::get_if<int64_t>(&value)) return *number;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  return Json();  // resolved in the decoder only
}

Json rope_object(const RopeSpec& rope, double partial_rotary_factor) {
  Json object = {{"rope_type", "default"}, {"rope_theta", rope.theta}};
  if (partial_rotary_factor != 1.0) object["partial_rotary_factor"] = partial_rotary_factor;
  if (rope.scaling == RopeScaling::kDefault) return object;
  object["factor"] = rope.factor;
  if (rope.scaling == RopeScaling::kLinear) {
    object["rope_type"] = "linear";
    return object;
  }
  object["original_max_position_embeddings"] = whole_or_real(rope.original_max_position_embeddings);
  if (rope.scaling == RopeScaling::kLlama3) {
    object["rope_type"] = "llama3";
    object["low_freq_factor"] = rope.low_freq_factor;
    object["high_freq_factor"] = rope.high_freq_factor;
    return object;
  }
  object["rope_type"] = "yarn";
  object["attention_factor"] = rope.attention_factor;
  object["beta_fast"] = rope.beta_fast;
  object["beta_slow"] = rope.beta_slow;
  if (!rope.truncate) object["truncate"] = false;
  return object;
}

/// What the rotary object says of the softmax scale of latent attention. Where cos and sin are as they are, equal
/// numbers say it, as DeepSeek writes it: not all code knows attention_factor.
void write_latent_scale(const Config& config, Json& rope) {
  if (!rope.is_object() || rope["rope_type"] != "yarn" || config.mscale == 0) return;
  if (rope["attention_factor"] == 1.0) {
    rope.erase("attention_factor");
    rope["mscale"] = config.mscale;
  }
  rope["mscale_all_dim"] = config.mscale;
}

/// The rotary object of the first layer that rotates and `slides` as asked; null if there is none.
Json find_rope(const DecoderSpec& spec, bool slides, double partial_rotary_factor) {
  for (const LayerSpec& layer : spec.layers) {
    const int rope = rope_of(layer);
    if (rope < 0 || (window_of(layer.mixer) > 0) != slides) continue;
    return rope_object(spec.ropes[static_cast<size_t>(rope)], partial_rotary_factor);
  }
  return nullptr;
}

void write_ropes(const Config& config, const DecoderSpec& spec, const HfFamily& family, Json& root) {
  Json full = find_rope(spec, false, config.partial_rotary_factor);
  Json sliding = find_rope(spec, true, config.partial_rotary_factor);
  if (family.attends_by_latent) write_latent_scale(config, full);
  if (full.is_null()) full = sliding;
  if (sliding.is_null()) sliding = full;
  if (full.is_null()) return;
  root["rope_parameters"] =
      family.has_rope_per_layer_type ? Json{{"full_attention", full}, {"sliding_attention", sliding}} : full;
}

void write_windows(const DecoderSpec& spec, HfWindow kind, Json& root) {
  if (kind == HfWindow::kNone) return;
  Json types = Json::array();
  int64_t window = 0;
  for (const LayerSpec& layer : spec.layers) {
    const int64_t own = window_of(layer.mixer);
    types.push_back(own > 0 ? "sliding_attention" : "full_attention");
    window = std::max(window, own);
  }
  if (kind == HfWindow::kLateLayers || kind == HfWindow::kIfUsed) root["use_sliding_window"] = window > 0;
  if (kind == HfWindow::kLateLayers || kind == HfWindow::kPattern) root["layer_types"] = types;
  root["sliding_window"] = window > 0 ? Json(window) : Json();  // a missing field would be the class default
}

/// Fields of DeepSeek's router. What its class does not read, other readers of its configurations do.
void write_groups(const RouterSpec& router, HfGroups kind, Json& root) {
  if (kind == HfGroups::kNone) return;
  const bool is_limited = router.num_groups > 0, is_v2 = kind == HfGroups::kIfAsked;
  root["scoring_func"] = is_v2 ? "softmax" : "sigmoid";
  root["topk_method"] = !is_v2 ? "noaux_tc" : is_limited ? "group_limited_greedy" : "greedy";
  root["n_group"] = is_limited ? router.num_groups : 1;
  root["topk_group"] = is_limited ? router.num_kept_groups : 1;
  root["moe_layer_freq"] = 1;
  if (is_v2) {
    root["norm_topk_prob"] = root["mlp_bias"] = false;
  } else {
    root["num_nextn_predict_layers"] = 0;
  }
}

/// Fields of the experts whose keys have values that leave them to the decoder.
void write_experts(const Config& config, const DecoderSpec& spec, const HfFamily& family, Json& root) {
  for (const LayerSpec& layer : spec.layers) {
    const auto* ffn = std::get_if<MoeFfnSpec>(&layer.ffn);
    if (ffn == nullptr) continue;
    if (root.contains("norm_topk_prob")) root["norm_topk_prob"] = ffn->router.normalizes;
    if (root.contains("swiglu_alpha")) root["swiglu_alpha"] = ffn->activation_alpha;
    write_groups(ffn->router, family.groups, root);
  }
  const auto& rules = family.rule_fields;
  if (std::find(rules.begin(), rules.end(), "mlp_only_layers") == rules.end()) return;
  root["mlp_only_layers"] = Json::array();
  for (int64_t i = 0; i < config.first_num_dense_layers; ++i) root["mlp_only_layers"].push_back(i);
}

/// What the family's class needs for this architecture. Whether it says all of it, reading it back shows.
Json architecture_fields(const Config& config, const DecoderSpec& spec, const HfFamily& family) {
  Json root = {{"architectures", {family.architecture}}, {"model_type", family.model_type}, {"hidden_act", "silu"}};
  for (const HfField& field : family.fields) root[field.spellings.front()] = field_value(config, field);
  if (family.attends_by_latent) {
    root["head_dim"] = config.qk_rope_head_dim;  // transformers' name for the width that rotates
    root["qk_head_dim"] = config.qk_nope_head_dim + config.qk_rope_head_dim;
  }
  write_ropes(config, spec, family, root);
  write_windows(spec, family.window, root);
  write_experts(config, spec, family, root);
  return root;
}

/// Whether a softmax over all experts, divided by its sum over the chosen, is one over the chosen.
bool weighs_the_chosen(const RouterSpec& router) {
  return router.score == RouterScore::kSoftmax && router.normalizes && !router.has_selection_bias &&
         router.num_groups == 0;
}

/// The decoder without the keys that only training knows, and with one form of each router.
DecoderSpec architecture_of(const Config& config) {
  DecoderSpec spec = make_decoder_spec(config);
  spec.dropout_rate = 0;
  spec.dense_init_scale = 1;
  spec.mtp = {};
  spec.moe = {};
  for (LayerSpec& layer : spec.layers) {
    auto* ffn = std::get_if<MoeFfnSpec>(&layer.ffn);
    if (ffn != nullptr && weighs_the_chosen(ffn->router)) ffn->router.score = RouterScore::kLogits;
  }
  return spec;
}

/// What a config.json says when it is read again.
struct ReadBack {
  std::optional<Config> config;
  std::string fault;  ///< why it cannot be read
};

ReadBack read_back(const Json& root) {
  try {
    std::vector<std::string> pairs;
    for (const KeyAssignment& item : hf_config_assignments(nlohmann::json(root), "config.json")) {
      pairs.push_back(item.key + "=" + item.value_text);
    }
    Config config = config_from_pairs(pairs);
    make_decoder_spec(config);
    return {std::move(config), {}};
  } catch (const ConfigError& error) {
    return {std::nullopt, error.what()};
  }
}

/// Whether another value of one key makes another decoder, or none.
bool key_matters(const KeyInfo& key, const TypedValue& value, const Config& config) {
  Config changed = config;
  set_value(changed, key, value);
  try {
    return architecture_of(changed) != architecture_of(config);
  } catch (const ConfigError&) {
    return true;
  }
}

/// The families, those of the same decoder_block first.
std::vector<const HfFamily*> candidates(const Config& config) {
  std::vector<const HfFamily*> families;
  for (const HfFamily& family : hf_families()) families.push_back(&family);
  const std::pair<std::string, std::string> block = {"decoder_block", config.decoder_block};
  std::stable_partition(families.begin(), families.end(), [&](const HfFamily* family) {
    return std::find(family->implied.begin(), family->implied.end(), block) != family->implied.end();
  });
  return families;
}

/// The first model key whose value in `config` gives another decoder than that in `readable`; null: no single one does.
const KeyInfo* find_culprit(const Config& config, const Config& readable) {
  for (const KeyInfo& key : key_table()) {
    const bool is_model_key = key.precedence == Precedence::kHard && key.rule.effect != Effect::kComputed &&
                              !std::holds_alternative<std::monostate>(key.field);
    if (!is_model_key) continue;
    const TypedValue value = get_value(config, key);
    if (value != get_value(readable, key) && key_matters(key, value, readable)) return &key;
  }
  return nullptr;
}

/// Names the key in which `config` differs from what the best family can say.
[[noreturn]] void refuse(const Config& config, const HfFamily& family, const Json& root) {
  const std::string what = "no model type of Hugging Face can say this";
  const ReadBack back = read_back(root);
  if (!back.config) fail_spec(config, "decoder_block", what + ": " + back.fault, config.decoder_block, "");
  const KeyInfo* key = find_culprit(config, *back.config);
  if (key == nullptr) {
    fail_spec(config, "decoder_block", what + " together with the other keys", config.decoder_block, "");
  }
  fail_spec(config, std::string(key->name), what, to_text(get_value(config, *key)),
            to_text(get_value(*back.config, *key)) + ", as model_type " + family.model_type);
}

Json id_or_null(const std::optional<int64_t>& id) {
  return id ? Json(*id) : Json();
}

}  // namespace

std::string hf_config_text(const Config& config, const HfExport& more) {
  const DecoderSpec spec = architecture_of(config);
  const std::vector<const HfFamily*> families = candidates(config);
  for (const HfFamily* family : families) {
    Json root = architecture_fields(config, spec, *family);
    const ReadBack back = read_back(root);
    if (!back.config || architecture_of(*back.config) != spec) continue;
    root["bos_token_id"] = id_or_null(more.bos_token_id);
    root["eos_token_id"] = id_or_null(more.eos_token_id);
    root["pad_token_id"] = id_or_null(more.pad_token_id);
    root["dtype"] = more.dtype;
    return root.dump(2) + "\n";
  }
  refuse(config, *families.front(), architecture_fields(config, spec, *families.front()));
}

}  // namespace ballast
