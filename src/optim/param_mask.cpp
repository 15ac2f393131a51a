// SPDX-License-Identifier: Apache-2.0
#include "optim/param_mask.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <memory>

#include "errors/errors.h"
#include "errors/log.h"

namespace ballast {
namespace {

/// A module of ours and its place in MaxText. Modules of a layer are relative to the layer, the others to the model.
/// OLMo 3 calls in MaxText `attention` what the other families call `self_attention`.
struct ModuleAlias {
  const char* module;
  const char* maxtext;
  const char* weight;  ///< what MaxText calls the module's `weight`; empty: it has none
};
constexpr ModuleAlias kModelModules[] = {
    {"model.embed_tokens", "token_embedder", "embedding"},
    {"model.norm", "decoder/decoder_norm", "scale"},
    {"lm_head", "decoder/logits_dense", "kernel"},
};
constexpr ModuleAlias kLayerModules[] = {
    {"input_layernorm", "pre_self_attention_layer_norm", "scale"},
    {"post_attention_layernorm", "post_self_attention_layer_norm", "scale"},
    {"post_feedforward_layernorm", "post_mlp_layer_norm", "scale"},
    {"self_attn.q_proj", "self_attention/query", "kernel"},
    {"self_attn.k_proj", "self_attention/key", "kernel"},
    {"self_attn.v_proj", "self_attention/value", "kernel"},
    {"self_attn.o_proj", "self_attention/out", "kernel"},
    {"self_attn.q_norm", "self_attention/query_norm", "scale"},
    {"self_attn.k_norm", "self_attention/key_norm", "scale"},
    {"self_attn.q_a_proj", "self_attention/wq_a", "kernel"},
    {"self_attn.q_a_layernorm", "self_attention/q_norm", "scale"},
    {"self_attn.q_b_proj", "self_attention/wq_b", "kernel"},
    {"self_attn.kv_a_proj_with_mqa", "self_attention/wkv_a", "kernel"},
    {"self_attn.kv_a_layernorm", "self_attention/kv_norm", "scale"},
    {"self_attn.kv_b_proj", "self_attention/wkv_b", "kernel"},
    {"self_attn", "self_attention", ""},
    {"self_attn", "attention", ""},
    {"self_attn.q_proj", "attention/query", "kernel"},
    {"self_attn.k_proj", "attention/key", "kernel"},
    {"self_attn.v_proj", "attention/value", "kernel"},
    {"self_attn.o_proj", "attention/out", "kernel"},
    {"self_attn.q_norm", "attention/query_norm", "scale"},
    {"self_attn.k_norm", "attention/key_norm", "scale"},
    {"mlp.gate_proj", "mlp/wi_0", "kernel"},
    {"mlp.up_proj", "mlp/wi_1", "kernel"},
    {"mlp.down_proj", "mlp/wo", "kernel"},
    {"mlp.shared_experts.gate_proj", "DeepSeekMoeBlock_0/shared_experts/wi_0", "kernel"},
    {"mlp.shared_experts.up_proj", "DeepSeekMoeBlock_0/shared_experts/wi_1", "kernel"},
    {"mlp.shared_experts.down_proj", "DeepSeekMoeBlock_0/shared_experts/wo", "kernel"},
};

/// In MaxText a path starts with one of these: in its checkpoints, its Linen optimizer, its NNX optimizer.
constexpr const char* kMaxTextRoots[] = {"params/params/", "params/", ""};

/// A regular expression in PCRE2, the closest to the Python syntax that MaxText's keys are written in.
class Pattern {
 public:
  Pattern(const std::string& key, const std::string& text) {
    int error = 0;
    PCRE2_SIZE error_offset = 0;
    code_.reset(
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.c_str()), text.size(), 0, &error, &error_offset, nullptr));
    if (!code_) fail(key, text, error, error_offset);
    match_data_.reset(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
  }

  bool matches_any(const std::vector<std::string>& paths) const {
    return std::any_of(paths.begin(), paths.end(), [&](const std::string& path) {
      return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(path.c_str()), path.size(), 0, 0, match_data_.get(),
                         nullptr) >= 0;
    });
  }

 private:
  [[noreturn]] static void fail(const std::string& key, const std::string& text, int error, size_t error_offset) {
    PCRE2_UCHAR message[128] = {};
    pcre2_get_error_message(error, message, sizeof message);
    Fault fault;
    fault.where = "config: " + key;
    fault.what = "'" + text + "' is not a regular expression: " + reinterpret_cast<const char*>(message) +
                 " at offset " + std::to_string(error_offset);
    throw ConfigError(fault);
  }

  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_data, Free> match_data_;
};

/// For each name whether any pattern matches it. Patterns without a match warn.
std::vector<bool> match_names(const std::string& key, const std::vector<std::string>& texts,
                              const std::vector<std::vector<std::string>>& paths_of_names) {
  std::vector<bool> matched(paths_of_names.size(), false);
  for (const std::string& text : texts) {
    const Pattern pattern(key, text);
    bool matches_something = false;
    for (size_t i = 0; i < paths_of_names.size(); ++i) {
      if (!pattern.matches_any(paths_of_names[i])) continue;
      matched[i] = matches_something = true;
    }
    if (!matches_something) log_warning(key + ": '" + text + "' matches no parameter; remove it to silence this");
  }
  return matched;
}

}  // namespace

std::vector<std::string> parameter_paths(const std::string& name) {
  std::string slashed = name;
  std::replace(slashed.begin(), slashed.end(), '.', '/');
  std::vector<std::string> paths{name, slashed};

  const size_t leaf_dot = name.rfind('.');
  if (leaf_dot == std::string::npos) return paths;
  const std::string leaf = name.substr(leaf_dot + 1);
  const auto add_maxtext = [&](const ModuleAlias& alias, const std::string& parent) {
    const std::string path = parent + alias.maxtext + "/" + (leaf == "weight" ? alias.weight : leaf);
    for (const char* root : kMaxTextRoots) paths.push_back(root + path);
  };

  std::string module = name.substr(0, leaf_dot);
  for (const ModuleAlias& alias : kModelModules) {
    if (module == alias.module) add_maxtext(alias, "");
  }
  const std::string layers = "model.layers.";
  if (!module.starts_with(layers)) return paths;
  const size_t number_end = module.find('.', layers.size());
  if (number_end == std::string::npos) return paths;
  const std::string layer = module.substr(layers.size(), number_end - layers.size());
  module.erase(0, number_end + 1);
  for (const ModuleAlias& alias : kLayerModules) {
    if (module != alias.module) continue;
    add_maxtext(alias, "decoder/layers_" + layer + "/");
    add_maxtext(alias, "decoder/layers/");
  }
  return paths;
}

std::vector<ParamMembership> mask_parameters(const std::vector<std::string>& names,
                                             const std::vector<std::string>& adamw_mask,
                                             const std::vector<std::string>& trainable_parameters_mask) {
  std::vector<std::vector<std::string>> paths_of_names;
  for (const std::string& name : names) paths_of_names.push_back(parameter_paths(name));
  const std::vector<bool> undecayed = match_names("adamw_mask", adamw_mask, paths_of_names);
  const std::vector<bool> chosen = match_names("trainable_parameters_mask", trainable_parameters_mask, paths_of_names);

  std::vector<ParamMembership> members(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    members[i].decays = !undecayed[i];
    members[i].trains = trainable_parameters_mask.empty() || chosen[i];
  }
  if (!members.empty() && std::none_of(members.begin(), members.end(), [](const auto& one) { return one.trains; })) {
    Fault fault;
    fault.where = "config: trainable_parameters_mask";
    fault.what = "no parameter is left to train";
    fault.need = "a pattern that matches a name like " + names.front();
    throw ConfigError(fault);
  }
  return members;
}

}  // namespace ballast
