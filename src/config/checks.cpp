// SPDX-License-Identifier: Apache-2.0
#include "config/checks.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "errors/errors.h"
#include "errors/log.h"

namespace ballast {
namespace {

// The member of `list` that `value` equals, read as the key's kind; words match in any case. Empty: none.
std::optional<TypedValue> find_listed(const KeyInfo& key, std::string_view list, const TypedValue& value) {
  const auto same_word = [](const std::string& a, const std::string& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
  };
  for (const std::string& word : split_words(list)) {
    std::optional<TypedValue> listed = key.read(parse_scalar(word));
    if (!listed) continue;
    if (*listed == value) return listed;
    const auto* text = std::get_if<std::string>(&value);
    if (text != nullptr && std::holds_alternative<std::string>(*listed) && same_word(*text, word)) return word;
  }
  return std::nullopt;
}

std::string quoted_if_empty(const std::string& text) {
  return text.empty() ? "''" : text;
}

std::string range_text(const KeyRule& rule) {
  std::string text;
  if (std::isfinite(rule.low)) text += (rule.excludes_low ? "more than " : "at least ") + to_text(rule.low);
  if (std::isfinite(rule.low) && std::isfinite(rule.high)) text += " and ";
  if (std::isfinite(rule.high)) text += (rule.excludes_high ? "less than " : "at most ") + to_text(rule.high);
  return text;
}

bool is_within(const KeyRule& rule, const TypedValue& value) {
  double number = 0;
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    number = static_cast<double>(*integer);
  } else if (const auto* real = std::get_if<double>(&value)) {
    number = *real;
  } else {
    return true;
  }
  const bool is_above = rule.excludes_low ? number > rule.low : number >= rule.low;
  const bool is_below = rule.excludes_high ? number < rule.high : number <= rule.high;
  return is_above && is_below;
}

[[noreturn]] void refuse(const KeyInfo& key, const Setting& setting, std::string_view what, std::string need) {
  Fault fault;
  fault.where = place_of(setting.origin, key.name);
  fault.what = what;
  fault.got = key.rule.is_secret ? std::string() : quoted_if_empty(to_text(setting.value));
  fault.need = std::move(need);
  throw ConfigError(fault);
}

// A word that no list of the choice holds, or one of those that do not work.
[[noreturn]] void refuse_choice(const KeyInfo& key, const Setting& setting, const TypedValue& value) {
  const KeyRule& rule = key.rule;
  if (!rule.refused_values.empty() && find_listed(key, rule.refused_values, value)) {
    refuse(key, setting, "not supported: " + std::string(rule.note), accepted_values(key));
  }
  if (!rule.later_values.empty() && find_listed(key, rule.later_values, value)) {
    refuse(key, setting, "not built yet in this version", accepted_values(key));
  }
  refuse(key, setting, "no such choice", accepted_values(key));
}

TypedValue check_rule(const KeyInfo& key, const Setting& setting, const TypedValue& value) {
  const KeyRule& rule = key.rule;
  if (rule.effect == Effect::kComputed) refuse(key, setting, rule.note, "no value");
  if (value == key.default_value()) return value;
  if (rule.has_values) {
    if (const std::optional<TypedValue> listed = find_listed(key, rule.values, value)) return *listed;
  }
  if (rule.is_choice) refuse_choice(key, setting, value);
  if (rule.effect == Effect::kPlanned) refuse(key, setting, rule.note, accepted_values(key));
  if (rule.effect == Effect::kRefused) {
    refuse(key, setting, "not supported: " + std::string(rule.note), accepted_values(key));
  }
  if (!is_within(rule, value)) refuse(key, setting, "out of range", accepted_values(key));
  return value;
}

// Throws with the origins of all `keys` in front.
[[noreturn]] void refuse_together(const Config& config, const std::vector<std::string>& keys, const std::string& what,
                                  const std::string& attempt) {
  Fault fault;
  for (const std::string& key : keys) {
    const std::string part = key + "=" + quoted_if_empty(to_text(get_value(config, *find_key(key))));
    fault.where += (fault.where.empty() ? "config: " : ", ") + part + " (" + config.origin(key) + ")";
  }
  fault.what = what;
  fault.attempt = attempt;
  throw ConfigError(fault);
}

void check_data(const Config& config) {
  if (config.dataset_type == "tfds") {
    refuse_together(config, {"dataset_type"}, "not supported: " + std::string(find_key("dataset_type")->rule.note),
                    "dataset_type=synthetic, hf or recorded");
  }
  if (config.dataset_type == "recorded" && config.recorded_batches_path.empty()) {
    refuse_together(config, {"dataset_type", "recorded_batches_path"}, "no file to read", "recorded_batches_path=FILE");
  }
  if (config.dataset_type != "hf") return;
  if (config.hf_path.empty() && config.hf_train_files.empty()) {
    refuse_together(config, {"dataset_type", "hf_path"}, "no data set to read",
                    "hf_path=FOLDER or hf_train_files=FILES");
  }
  const bool has_tokenizer = !config.tokenizer_path.empty() || !config.hf_model_path.empty();
  if (config.tokenize_train_data && !has_tokenizer) {
    refuse_together(config, {"dataset_type", "tokenizer_path"}, "text needs a tokenizer", "tokenizer_path=FILE");
  }
}

void check_checkpoints(const Config& config) {
  if (config.load_parameters_path.empty() || config.load_full_state_path.empty()) return;
  refuse_together(config, {"load_parameters_path", "load_full_state_path"}, "both name the weights of a new run",
                  "one of them");
}

void check_evaluation(const Config& config) {
  if (config.eval_interval <= 0 || config.eval_steps > 0) return;
  if (config.dataset_type == "synthetic") {
    refuse_together(config, {"dataset_type", "eval_interval", "eval_steps"}, "synthetic batches never end",
                    "eval_steps=10");
  }
  if (config.generate_padding_batch_eval) {
    refuse_together(config, {"generate_padding_batch_eval", "eval_steps"}, "padding batches never end",
                    "eval_steps=10");
  }
}

/// Keys that are read only where another key has some value.
struct DependentKeys {
  std::string_view keys;
  const char* chooser;
  std::string_view choices;  // that read the keys ...
  bool are_idle = false;     // ... or that do not
};
constexpr DependentKeys kDependentKeys[] = {
    {"num_experts_per_tok|base_moe_mlp_dim|shared_experts|first_num_dense_layers|interleave_moe_layer_step|expert_init|"
     "capacity_factor|sparse_matmul|load_balance_loss_weight|load_balance_loss_form|load_balance_scope|"
     "moe_lb_group_instances|router_z_loss_weight|moe_aux_divisor|moe_aux_loss_reduction|norm_topk_prob|"
     "routed_score_func|routed_scaling_factor|routed_bias|routed_bias_update_rate|n_routing_groups|topk_routing_group|"
     "log_moe_bias_norms|expert_load_period|moe_mlpwi_0|moe_mlpwi_1|moe_mlpwo",
     "num_experts", "0|1", true},
    {"load_balance_loss_form|load_balance_scope|moe_lb_group_instances", "load_balance_loss_weight", "0", true},
    {"log_moe_bias_norms|routed_bias_update_rate", "routed_bias", "true"},
    {"log_moe_bias_norms", "decoder_block", "gpt_oss", true},  // its bias is trained like a weight
    {"adam_b1|adam_b2|adam_eps|adam_eps_root|adam_weight_decay|adamw_mask|mu_dtype", "opt_type", "adamw|adam_pax|muon"},
    {"muon_beta|muon_weight_decay|muon_consistent_rms", "opt_type", "muon"},
    {"skip_step_interval|skip_step_scaling_factor", "skip_step_on_spikes", "true"},
    {"wsd_decay_steps_fraction|wsd_decay_style", "lr_schedule_type", "wsd"},
    {"per_device_batch_size_start|per_device_batch_size_increment|global_rampup_samples", "enable_rampup_batch_size",
     "true"},
    {"context|attention_out|query_proj|key_proj|value_proj|kv_proj|qkv_proj|out_proj|mlpwi|mlpwi_0|mlpwi_1|mlpwo|"
     "moe_mlpwi_0|moe_mlpwi_1|moe_mlpwo|query_wa_proj|kv_wa_proj|mla_q|mla_kv",
     "remat_policy", "custom"},
    {"qk_norm_with_scale", "use_qk_norm", "true"},
    {"normalize_embedding_logits", "logits_via_embedding", "true"},
    {"rope_linear_scaling_factor", "rope_type", "linear"},
    {"rope_use_scale|rope_low_freq_factor|rope_high_freq_factor", "rope_type", "llama3.1"},
    {"rope_factor|original_max_position_embeddings", "rope_type", "llama3.1|yarn"},
    {"head_dim", "attention_type", "mla", true},
    {"q_lora_rank|kv_lora_rank|qk_nope_head_dim|qk_rope_head_dim|v_head_dim|mscale|query_wa_proj|kv_wa_proj|mla_q|"
     "mla_kv",
     "attention_type", "mla"},
    {"beta_fast|beta_slow|rope_interleave|rope_truncate|rope_attention_scaling|mscale", "rope_type", "yarn"},
    {"eval_steps|eval_start_step|target_eval_loss|eval_split|eval_data_columns|hf_eval_split|hf_eval_files|"
     "generate_padding_batch_eval",
     "eval_interval", "-1", true},
    {"train_split|train_data_columns|hf_path|hf_name|hf_data_dir|hf_train_files|hf_shuffle_buffer_size|num_epoch|"
     "tokenize_train_data|packing|max_segments_per_seq|packing_targets_across_documents|add_bos|add_eos|use_truncation|"
     "enable_data_shuffling|data_shuffle_seed",
     "dataset_type", "hf"},
    {"recorded_batches_path", "dataset_type", "recorded"},
    {"async_checkpointing|checkpoint_period|save_checkpoint_on_start|save_checkpoint_on_completion|"
     "max_num_checkpoints_to_keep|enable_continuous_checkpointing|restart_data_on_resume",
     "enable_checkpointing", "true"},
    {"skip_first_n_steps_for_profiler|profiler_steps|profile_periodically_period", "profiler", "xplane"},
};

/// Whether a line about an idle key helps: a model's file may well set what another kind of run of it needs.
bool is_asked_for(const Config& config, const KeyInfo& key) {
  if (get_value(config, key) == key.default_value()) return false;
  const std::string& origin = config.origin(key.name);
  return key.precedence == Precedence::kSoft || origin == "command line" || origin.starts_with("environment");
}

void warn_of_idle_keys(const Config& config) {
  std::set<std::string_view> named;
  for (const DependentKeys& row : kDependentKeys) {
    const KeyInfo& chooser = *find_key(row.chooser);
    const TypedValue choice = get_value(config, chooser);
    if (find_listed(chooser, row.choices, choice).has_value() != row.are_idle) continue;
    if (chooser.name == "rope_type" && !config.local_rope_type.empty()) continue;  // sliding layers may read them
    for (const std::string& name : split_words(row.keys)) {
      const KeyInfo& key = *find_key(name);
      if (name == "rope_interleave" && config.attention_type == "mla") continue;
      if (!is_asked_for(config, key) || !named.insert(key.name).second) continue;
      log_warning(place_of(config.origin(name), name) + " has no effect with " + row.chooser + "=" +
                  quoted_if_empty(to_text(choice)));
    }
  }
}

/// Keys of the experts that other keys of theirs make idle, and the width that nobody gave.
void remark_on_experts(const Config& config) {
  if (config.num_experts < 2) return;
  if (config.base_moe_mlp_dim == -1) {
    log_info("config: base_moe_mlp_dim=-1: each expert is base_mlp_dim=" + to_text(config.base_mlp_dim) + " wide");
  }
  if (config.capacity_factor > 0 && config.sparse_matmul) {
    log_warning(place_of(config.origin("capacity_factor"), "capacity_factor") +
                " has no effect with sparse_matmul=true: no token is dropped");
  }
  if (config.capacity_factor <= 0 && !config.sparse_matmul) {
    log_warning(place_of(config.origin("sparse_matmul"), "sparse_matmul") +
                "=false has no effect without capacity_factor: the chosen experts alone are computed all the same");
  }
  const bool has_balance = config.load_balance_loss_weight > 0, has_z = config.router_z_loss_weight > 0;
  const bool reads_divisor = has_z || (has_balance && config.load_balance_loss_form == "olmo");
  if (config.moe_aux_divisor != "tokens" && !reads_divisor) {
    log_warning(place_of(config.origin("moe_aux_divisor"), "moe_aux_divisor") +
                " has no effect: it divides load_balance_loss_form=olmo and the router z loss");
  }
  if (config.moe_aux_loss_reduction != "mean" && !has_balance && !has_z) {
    log_warning(place_of(config.origin("moe_aux_loss_reduction"), "moe_aux_loss_reduction") +
                " has no effect: load_balance_loss_weight and router_z_loss_weight are 0");
  }
}

void warn_of_long_rows(const Config& config) {
  const double limit = config.max_position_embeddings;
  if (limit <= 0 || static_cast<double>(config.max_target_length) <= limit) return;
  log_warning(place_of(config.origin("max_target_length"), "max_target_length") + ": rows of " +
              to_text(config.max_target_length) + " tokens are longer than the " + to_text(limit) +
              " positions the model was made for (max_position_embeddings)");
}

/// A group of the load-balance statistics is rows of the step's batch that lie in one micro-batch.
void check_balance_groups(const Config& config) {
  if (config.moe_lb_group_instances == 0) return;
  if (config.load_balance_scope != "batch") {
    refuse_together(config, {"moe_lb_group_instances", "load_balance_scope"},
                    "groups of rows are statistics of a batch", "load_balance_scope=batch");
  }
  if (config.enable_rampup_batch_size) {
    refuse_together(config, {"moe_lb_group_instances", "enable_rampup_batch_size"},
                    "groups do not fit micro-batches that grow", "moe_lb_group_instances=0");
  }
  if (config.gradient_accumulation_steps > 1 && config.gradient_accumulation_split == "strided") {
    refuse_together(config, {"moe_lb_group_instances", "gradient_accumulation_steps", "gradient_accumulation_split"},
                    "micro-batches of strided rows tear the groups apart", "gradient_accumulation_split=contiguous");
  }
}

void check_profile(const Config& config) {
  if (config.profiler.empty() || config.profile_periodically_period <= 0) return;
  if (config.profile_periodically_period >= config.profiler_steps) return;
  refuse_together(config, {"profiler_steps", "profile_periodically_period"},
                  "a profile would start before the one before it has ended", "a longer period or fewer steps");
}

void remark_on_values(const Config& config) {
  for (const KeyInfo& key : key_table()) {
    if (key.rule.remark_text.empty()) continue;
    const TypedValue value = get_value(config, key);
    if (!find_listed(key, key.rule.remark_values, value)) continue;
    log_info("config: " + std::string(key.name) + "=" + to_text(value) + ": " + std::string(key.rule.remark_text));
  }
}

}  // namespace

std::string accepted_values(const KeyInfo& key) {
  std::vector<std::string> words;
  const KeyRule& rule = key.rule;
  if (rule.effect == Effect::kPlanned || rule.effect == Effect::kRefused) words.push_back(to_text(key.default_value()));
  if (const std::string range = range_text(rule); !range.empty()) words.push_back(range);
  if (rule.has_values) {
    for (const std::string& word : split_words(rule.values)) words.push_back(word);
  }
  for (std::string& word : words) word = quoted_if_empty(word);
  return join_or(words);
}

std::string place_of(const std::string& origin, std::string_view key) {
  return "config: " + origin + " " + std::string(key);
}

TypedValue checked_value(const KeyInfo& key, const Setting& setting) {
  const std::optional<TypedValue> value = key.read(setting.value);
  if (!value) {
    const std::string article = is_absent(setting.value) ? "needs a value" : "wrong type";
    refuse(key, setting, article, std::string(describe(key.kind)));
  }
  return check_rule(key, setting, *value);
}

void warn_if_without_effect(const KeyInfo& key, const Setting& setting) {
  if (key.rule.effect != Effect::kNoEffect || checked_value(key, setting) == key.default_value()) return;
  const std::string text = key.rule.is_secret ? "(set)" : to_text(setting.value);
  log_warning(place_of(setting.origin, key.name) + "=" + text +
              " is recognised but has no effect: " + std::string(key.rule.note));
}

void check_together(const Config& config, bool needs_data) {
  if (config.lr_schedule_type == "wsd" && config.warmup_steps_fraction + config.wsd_decay_steps_fraction > 1) {
    refuse_together(config, {"warmup_steps_fraction", "wsd_decay_steps_fraction"}, "their sum is more than 1",
                    "smaller fractions");
  }
  if (config.global_parameter_scale & (config.global_parameter_scale - 1)) {
    refuse_together(config, {"global_parameter_scale"}, "is no power of two", "1, 2, 4 ...");
  }
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (std::any_of(config.run_name.begin(), config.run_name.end(), is_control) || config.run_name == "." ||
      config.run_name == "..") {
    refuse_together(config, {"run_name"}, "cannot name a folder", "letters, digits, - and _");
  }
  check_balance_groups(config);
  if (!needs_data) return;
  check_data(config);
  check_checkpoints(config);
  check_evaluation(config);
  warn_of_idle_keys(config);
  remark_on_experts(config);
  warn_of_long_rows(config);
  check_profile(config);
  remark_on_values(config);
}

}  // namespace ballast
