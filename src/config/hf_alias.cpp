// SPDX-License-Identifier: Apache-2.0
#include "config/hf_alias.h"

#include <algorithm>

namespace ballast {
namespace {

/// Class defaults in which the families differ. Empty: derived from other fields.
struct ClassDefaults {
  std::string vocab_size, num_key_value_heads, head_dim, intermediate_size, max_position_embeddings, rms_norm_eps;
  std::string hidden_size = "4096", num_hidden_layers = "32", num_attention_heads = "32";
};

std::vector<HfField> dense_fields(const ClassDefaults& defaults) {
  return {
      {"vocab_size", {"vocab_size"}, HfType::kInteger, defaults.vocab_size},
      {"base_emb_dim", {"hidden_size"}, HfType::kInteger, defaults.hidden_size},
      {"base_num_decoder_layers", {"num_hidden_layers"}, HfType::kInteger, defaults.num_hidden_layers},
      {"base_num_query_heads", {"num_attention_heads"}, HfType::kInteger, defaults.num_attention_heads},
      {"base_num_kv_heads", {"num_key_value_heads"}, HfType::kInteger, defaults.num_key_value_heads},
      {"head_dim", {"head_dim"}, HfType::kInteger, defaults.head_dim},
      {"base_mlp_dim", {"intermediate_size"}, HfType::kInteger, defaults.intermediate_size},
      {"max_position_embeddings", {"max_position_embeddings"}, HfType::kInteger, defaults.max_position_embeddings},
      {"normalization_layer_epsilon", {"rms_norm_eps"}, HfType::kNumber, defaults.rms_norm_eps},
      {"logits_via_embedding", {"tie_word_embeddings"}, HfType::kBoolean, "false"},
  };
}

const HfField kAttentionBias = {"attention_bias", {"attention_bias"}, HfType::kBoolean, "false"};
const HfField kNormTopk = {"norm_topk_prob", {"norm_topk_prob"}, HfType::kBoolean, "false"};
const HfField kMlpBias = {"mlp_bias", {"mlp_bias"}, HfType::kBoolean, "false"};

std::vector<HfField> joined(std::vector<HfField> fields, const std::vector<HfField>& more) {
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

std::vector<std::pair<std::string, std::string>> implied_by(const std::string& decoder_block, bool has_qk_norm) {
  return {{"decoder_block", decoder_block},
          {"mlp_activations", "[silu, linear]"},
          {"use_qk_norm", has_qk_norm ? "true" : "false"},
          {"normalize_embedding_logits", "false"},
          {"rope_interleave", "false"}};
}

std::vector<std::string> rope_fields_and(std::vector<std::string> more) {
  std::vector<std::string> fields = {"rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor",
                                     "original_max_position_embeddings"};
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

/// Experts of which `first` and `second` are the spellings of the number, the former the one to write.
std::vector<HfField> expert_fields(const std::string& first, const std::string& second, const std::string& num_experts,
                                   const std::string& num_experts_per_tok) {
  return {{"num_experts", {first, second}, HfType::kInteger, num_experts},
          {"num_experts_per_tok", {"num_experts_per_tok"}, HfType::kInteger, num_experts_per_tok}};
}

/// intermediate_size is the width of an expert, and there is no dense layer.
HfField expert_width(const std::string& class_default) {
  return {"base_moe_mlp_dim", {"intermediate_size"}, HfType::kInteger, class_default};
}

std::vector<std::pair<std::string, std::string>> implied_with_experts(const std::string& decoder_block,
                                                                      bool has_qk_norm, const std::string& score) {
  auto implied = implied_by(decoder_block, has_qk_norm);
  implied.emplace_back("routed_score_func", score);
  return implied;
}

HfFamily mixtral() {
  HfFamily family;
  family.model_type = "mixtral";
  family.architecture = "MixtralForCausalLM";
  family.implied = implied_with_experts("mixtral", false, "");
  family.fields = joined(dense_fields({"32000", "8", "", "14336", "131072", "1e-05"}),
                         expert_fields("num_local_experts", "num_experts", "8", "2"));
  family.fields.push_back(expert_width("14336"));
  family.rope_theta = 1000000.0;
  family.window = HfWindow::kEveryLayer;
  family.rule_fields = rope_fields_and({"sliding_window"});
  family.class_window = 0;
  return family;
}

HfFamily qwen3_moe() {
  HfFamily family;
  family.model_type = "qwen3_moe";
  family.architecture = "Qwen3MoeForCausalLM";
  family.implied = implied_with_experts("qwen3_moe", true, "softmax");
  family.fields = joined(dense_fields({"151936", "4", "", "6144", "32768", "1e-06", "2048", "24", "32"}),
                         expert_fields("num_local_experts", "num_experts", "128", "8"));
  family.fields = joined(family.fields, {{"base_moe_mlp_dim", {"moe_intermediate_size"}, HfType::kInteger, "768"},
                                         {"interleave_moe_layer_step", {"decoder_sparse_step"}, HfType::kInteger, "1"},
                                         kNormTopk,
                                         kAttentionBias});
  family.window = HfWindow::kIfUsed;
  family.rule_fields = rope_fields_and({"sliding_window", "use_sliding_window", "mlp_only_layers"});
  return family;
}

HfFamily olmoe() {
  HfFamily family;
  family.model_type = "olmoe";
  family.architecture = "OlmoeForCausalLM";
  family.implied = implied_with_experts("olmoe", true, "softmax");
  family.fields = joined(dense_fields({"50304", "", "", "2048", "4096", "1e-05", "2048", "16", "16"}),
                         expert_fields("num_experts", "num_local_experts", "64", "8"));
  family.fields = joined(family.fields, {expert_width("2048"), kNormTopk, kAttentionBias});
  family.rule_fields = rope_fields_and({});
  return family;
}

HfFamily flex_olmo() {
  HfFamily family;
  family.model_type = "flex_olmo";
  family.architecture = "FlexOlmoForCausalLM";
  family.implied = implied_with_experts("flex_olmo", true, "softmax");
  family.fields = joined(dense_fields({"100352", "", "", "11008", "4096", "1e-06"}),
                         expert_fields("num_experts", "num_local_experts", "7", "5"));
  family.fields = joined(family.fields, {expert_width("11008"), kNormTopk, kAttentionBias});
  family.rope_theta = 500000.0;
  family.rule_fields = rope_fields_and({});
  return family;
}

HfFamily gpt_oss() {
  HfFamily family;
  family.model_type = "gpt_oss";
  family.architecture = "GptOssForCausalLM";
  family.implied = implied_with_experts("gpt_oss", false, "");
  family.implied.insert(family.implied.end(),
                        {{"attention_sink", "true"}, {"routed_bias", "true"}, {"mlp_bias", "true"}});
  family.fields = joined(dense_fields({"201088", "8", "64", "2880", "131072", "1e-05", "2880", "36", "64"}),
                         {{"num_experts", {"num_local_experts", "num_experts"}, HfType::kInteger, "128"},
                          {"num_experts_per_tok", {"num_experts_per_tok", "experts_per_token"}, HfType::kInteger, "4"},
                          expert_width("2880"),
                          {"mlp_activations_limit", {"swiglu_limit"}, HfType::kNumber, "7.0"},
                          {"mlp_activations_alpha", {"swiglu_alpha"}, HfType::kNumber, "1.702"},
                          {"attention_bias", {"attention_bias"}, HfType::kBoolean, "true"}});
  family.rope_theta = 150000.0;
  family.window = HfWindow::kPattern;
  family.rule_fields = rope_fields_and({"layer_types", "sliding_window"});
  family.class_window = 128;
  family.window_pattern = "every other layer slides";
  family.class_rope =
      R"({"rope_type": "yarn", "factor": 32, "beta_fast": 32, "beta_slow": 1, "truncate": false,
          "original_max_position_embeddings": 4096})";
  return family;
}

/// What DeepSeek V2 and V3 have in common.
HfFamily deepseek(const ClassDefaults& defaults) {
  HfFamily family;
  family.implied = implied_with_experts("deepseek", false, "");
  family.implied.emplace_back("attention_type", "mla");
  for (HfField& field : dense_fields(defaults)) {
    if (field.key != "head_dim") family.fields.push_back(std::move(field));  // here the width of the rotating part
  }
  family.fields = joined(family.fields, {kAttentionBias,
                                         {"q_lora_rank", {"q_lora_rank"}, HfType::kInteger, "1536", "0"},
                                         {"kv_lora_rank", {"kv_lora_rank"}, HfType::kInteger, "512"},
                                         {"qk_nope_head_dim", {"qk_nope_head_dim"}, HfType::kInteger, "128"},
                                         {"qk_rope_head_dim", {"qk_rope_head_dim"}, HfType::kInteger, "64"},
                                         {"v_head_dim", {"v_head_dim"}, HfType::kInteger, "128"}});
  family.rule_fields = rope_fields_and({"n_group", "topk_group", "topk_method", "scoring_func"});
  family.ignored_fields = {"head_dim", "qk_head_dim", "num_nextn_predict_layers", "num_mtp_layers", "ep_size"};
  family.attends_by_latent = true;
  return family;
}

void set_implied(HfFamily& family, const std::string& key, const std::string& value) {
  for (auto& [name, text] : family.implied) {
    if (name == key) text = value;
  }
}

/// Experts of DeepSeek under the names of its configurations.
std::vector<HfField> deepseek_experts(const HfField& num_experts, const std::vector<std::string>& class_defaults) {
  return {num_experts,
          {"num_experts_per_tok", {"num_experts_per_tok"}, HfType::kInteger, class_defaults[0]},
          {"shared_experts", {"n_shared_experts"}, HfType::kInteger, class_defaults[1]},
          {"base_moe_mlp_dim", {"moe_intermediate_size"}, HfType::kInteger, class_defaults[2]},
          {"first_num_dense_layers", {"first_k_dense_replace"}, HfType::kInteger, class_defaults[3]},
          {"routed_scaling_factor", {"routed_scaling_factor"}, HfType::kNumber, class_defaults[4]}};
}

HfFamily deepseek_v2() {
  HfFamily family = deepseek({"102400", "", "", "11008", "2048", "1e-06"});
  family.model_type = "deepseek_v2";
  family.architecture = "DeepseekV2ForCausalLM";
  set_implied(family, "routed_score_func", "softmax");
  set_implied(family, "rope_interleave", "true");
  family.implied.insert(family.implied.end(), {{"norm_topk_prob", "false"}, {"routed_bias", "false"}});
  family.fields = joined(family.fields,
                         deepseek_experts({"num_experts", {"n_routed_experts", "num_experts"}, HfType::kInteger, "64"},
                                          {"", "2", "1407", "0", "1.0"}));
  family.rule_fields.emplace_back("mlp_bias");
  family.ignored_fields.emplace_back("norm_topk_prob");  // transformers never divides by the sum
  family.groups = HfGroups::kIfAsked;
  return family;
}

HfFamily deepseek_v3() {
  HfFamily family = deepseek({"129280", "128", "", "18432", "4096", "1e-06", "7168", "61", "128"});
  family.model_type = "deepseek_v3";
  family.architecture = "DeepseekV3ForCausalLM";
  set_implied(family, "routed_score_func", "sigmoid");
  std::erase_if(family.implied, [](const auto& item) { return item.first == "rope_interleave"; });
  family.implied.emplace_back("routed_bias", "true");
  family.fields =
      joined(family.fields,
             deepseek_experts({"num_experts", {"n_routed_experts", "num_local_experts"}, HfType::kInteger, "256"},
                              {"8", "1", "2048", "3", "2.5"}));
  family.fields = joined(family.fields, {{"norm_topk_prob", {"norm_topk_prob"}, HfType::kBoolean, "true"},
                                         {"rope_interleave", {"rope_interleave"}, HfType::kBoolean, "true"}});
  family.aliases = {"kimi_k2"};
  family.groups = HfGroups::kAlways;
  return family;
}

/// The head of a table with one column a family behind the first ones.
std::string markdown_head(const std::string& first_columns, const std::string& first_rule) {
  std::string head = first_columns;
  std::string rule = first_rule;
  for (const HfFamily& family : hf_families()) {
    head += " `" + family.model_type + "` |";
    rule += "---|";
  }
  return head + "\n" + rule + "\n";
}

/// One row: the key, its fields, and what each family takes where the fields are absent.
std::string field_row(const HfField& field) {
  std::string row = "| `" + field.key + "` | ";
  for (size_t i = 0; i < field.spellings.size(); ++i) row += (i > 0 ? ", `" : "`") + field.spellings[i] + "`";
  row += " |";
  for (const HfFamily& family : hf_families()) {
    const auto own = std::find_if(family.fields.begin(), family.fields.end(), [&](const HfField& candidate) {
      return candidate.key == field.key && candidate.spellings == field.spellings;
    });
    const bool is_read = own != family.fields.end();
    row += " " + (!is_read ? "not read" : own->class_default.empty() ? "derived" : own->class_default) + " |";
  }
  return row + "\n";
}

std::string implied_row(const std::string& key) {
  std::string row = "| `" + key + "` |";
  for (const HfFamily& family : hf_families()) {
    const auto own = std::find_if(family.implied.begin(), family.implied.end(),
                                  [&](const auto& key_and_value) { return key_and_value.first == key; });
    const std::string value = own == family.implied.end() ? "" : own->second.empty() ? "''" : own->second;
    row += " " + value + " |";
  }
  return row + "\n";
}

std::string rule_row(const std::string& field) {
  std::string row = "| `" + field + "` |";
  for (const HfFamily& family : hf_families()) {
    const auto& fields = family.rule_fields;
    row += std::find(fields.begin(), fields.end(), field) == fields.end() ? " not read |" : " by rule |";
  }
  return row + "\n";
}

/// The rows of all families, each once, in the order of first appearance.
template <class Rows>
std::string union_of_rows(const Rows& rows_of) {
  std::vector<std::string> written;
  std::string text;
  for (const HfFamily& family : hf_families()) {
    for (const std::string& row : rows_of(family)) {
      if (std::find(written.begin(), written.end(), row) != written.end()) continue;
      written.push_back(row);
      text += row;
    }
  }
  return text;
}

std::string markdown_list(const std::vector<std::string>& fields) {
  std::string text;
  for (const std::string& field : fields) text += (text.empty() ? "`" : ", `") + field + "`";
  return text + "\n";
}

}  // namespace

const std::vector<HfFamily>& hf_families() {
  static const std::vector<HfFamily> families = {
      {"llama", "LlamaForCausalLM", implied_by("llama2", false),
       joined(dense_fields({"32000", "", "", "11008", "2048", "1e-06"}), {kAttentionBias, kMlpBias}), 10000.0, false,
       HfWindow::kNone, rope_fields_and({})},
      {"mistral", "MistralForCausalLM", implied_by("mistral", false),
       dense_fields({"32000", "8", "", "14336", "131072", "1e-06"}), 10000.0, false, HfWindow::kEveryLayer,
       rope_fields_and({"sliding_window"})},
      {"qwen3", "Qwen3ForCausalLM", implied_by("qwen3", true),
       joined(dense_fields({"151936", "32", "128", "22016", "32768", "1e-06"}), {kAttentionBias}), 10000.0, false,
       HfWindow::kLateLayers,
       rope_fields_and({"layer_types", "sliding_window", "use_sliding_window", "max_window_layers"})},
      {"olmo3", "Olmo3ForCausalLM", implied_by("olmo3", true),
       joined(dense_fields({"50304", "", "", "11008", "2048", "1e-05"}), {kAttentionBias}), 500000.0, true,
       HfWindow::kPattern, rope_fields_and({"layer_types", "sliding_window"}), 4096, "three of four layers slide"},
      mixtral(),
      qwen3_moe(),
      olmoe(),
      flex_olmo(),
      gpt_oss(),
      deepseek_v2(),
      deepseek_v3(),
  };
  return families;
}

const std::vector<HfRejection>& hf_rejections() {
  static const std::vector<HfRejection> rejections = {
      {"hidden_act", {"\"silu\""}, "silu"},
      {"hidden_activation", {"\"silu\""}, "silu"},
      {"use_bidirectional_attention", {"false"}, "causal attention (false)"},
      {"router_jitter_noise", {"0", "0.0"}, "0"},
      {"attn_logit_softcapping", {}, "null"},
      {"final_logit_softcapping", {}, "null"},
      {"clip_qkv", {}, "null"},
      {"moe_layer_freq", {"1"}, "1"},
  };
  return rejections;
}

const std::vector<std::string>& hf_recipe_fields() {
  static const std::vector<std::string> fields = {
      "dtype",      "torch_dtype",          "attention_dropout", "hidden_dropout", "resid_pdrop",
      "embd_pdrop", "router_aux_loss_coef", "aux_loss_alpha",    "seq_aux"};
  return fields;
}

const std::vector<std::string>& hf_ignored_fields() {
  static const std::vector<std::string> fields = {"model_type",
                                                  "architectures",
                                                  "transformers_version",
                                                  "_name_or_path",
                                                  "auto_map",
                                                  "_attn_implementation",
                                                  "attn_implementation",
                                                  "use_cache",
                                                  "output_router_logits",
                                                  "output_attentions",
                                                  "output_hidden_states",
                                                  "return_dict",
                                                  "chunk_size_feed_forward",
                                                  "is_encoder_decoder",
                                                  "is_decoder",
                                                  "problem_type",
                                                  "id2label",
                                                  "label2id",
                                                  "pretraining_tp",
                                                  "bos_token_id",
                                                  "eos_token_id",
                                                  "pad_token_id",
                                                  "initializer_range",
                                                  "initial_context_length"};
  return fields;
}

std::string hf_alias_markdown() {
  std::string text = markdown_head("| key | field |", "|---|---|") + union_of_rows([](const HfFamily& family) {
                       std::vector<std::string> rows;
                       for (const HfField& field : family.fields) rows.push_back(field_row(field));
                       return rows;
                     });
  text += "\n" + markdown_head("| key, fixed by `model_type` |", "|---|") + union_of_rows([](const HfFamily& family) {
            std::vector<std::string> rows;
            for (const auto& [key, value] : family.implied) rows.push_back(implied_row(key));
            return rows;
          });
  text += "\n" + markdown_head("| field |", "|---|") + union_of_rows([](const HfFamily& family) {
            std::vector<std::string> rows;
            for (const std::string& field : family.rule_fields) rows.push_back(rule_row(field));
            return rows;
          });
  text += "\n| field, refused otherwise | absent, null or |\n|---|---|\n";
  for (const HfRejection& rejection : hf_rejections()) {
    text += "| `" + rejection.field + "` | " + (rejection.accepted.empty() ? "-" : rejection.need) + " |\n";
  }
  text += "| `quantization_config` | `quant_method` mxfp4: decoded as it is read |\n";
  for (const HfFamily& family : hf_families()) {
    for (const std::string& alias : family.aliases) {
      text += "\n`model_type` `" + alias + "` is read as `" + family.model_type + "`.\n";
    }
  }
  text += "\nRecipe of the training, not used: " + markdown_list(hf_recipe_fields());
  text += "\nIgnored: " + markdown_list(hf_ignored_fields());
  for (const HfFamily& family : hf_families()) {
    if (family.ignored_fields.empty()) continue;
    text += "\nIgnored in `" + family.model_type + "` too: " + markdown_list(family.ignored_fields);
  }
  return text;
}

}  // namespace ballast
