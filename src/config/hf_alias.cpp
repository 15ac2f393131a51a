// SPDX-License-Identifier: Apache-2.0
#include "config/hf_alias.h"

#include <algorithm>

namespace ballast {
namespace {

/// Class defaults in which the families differ. Empty: derived from other fields.
struct ClassDefaults {
  std::string vocab_size, num_key_value_heads, head_dim, intermediate_size, max_position_embeddings, rms_norm_eps;
};

std::vector<HfField> dense_fields(const ClassDefaults& defaults) {
  return {
      {"vocab_size", {"vocab_size"}, HfType::kInteger, defaults.vocab_size},
      {"base_emb_dim", {"hidden_size"}, HfType::kInteger, "4096"},
      {"base_num_decoder_layers", {"num_hidden_layers"}, HfType::kInteger, "32"},
      {"base_num_query_heads", {"num_attention_heads"}, HfType::kInteger, "32"},
      {"base_num_kv_heads", {"num_key_value_heads"}, HfType::kInteger, defaults.num_key_value_heads},
      {"head_dim", {"head_dim"}, HfType::kInteger, defaults.head_dim},
      {"base_mlp_dim", {"intermediate_size"}, HfType::kInteger, defaults.intermediate_size},
      {"max_position_embeddings", {"max_position_embeddings"}, HfType::kInteger, defaults.max_position_embeddings},
      {"normalization_layer_epsilon", {"rms_norm_eps"}, HfType::kNumber, defaults.rms_norm_eps},
      {"logits_via_embedding", {"tie_word_embeddings"}, HfType::kBoolean, "false"},
  };
}

const HfField kAttentionBias = {"attention_bias", {"attention_bias"}, HfType::kBoolean, "false"};
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
    row += " " + (own == family.implied.end() ? "" : own->second) + " |";
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
       HfWindow::kPattern, rope_fields_and({"layer_types", "sliding_window"})},
  };
  return families;
}

const std::vector<HfRejection>& hf_rejections() {
  static const std::vector<HfRejection> rejections = {
      {"hidden_act", {"\"silu\""}, "silu"},
      {"hidden_activation", {"\"silu\""}, "silu"},
      {"quantization_config", {}, "weights that are not quantised"},
      {"use_bidirectional_attention", {"false"}, "causal attention (false)"},
      {"router_jitter_noise", {"0", "0.0"}, "0"},
      {"attn_logit_softcapping", {}, "null"},
      {"final_logit_softcapping", {}, "null"},
      {"clip_qkv", {}, "null"},
  };
  return rejections;
}

const std::vector<std::string>& hf_recipe_fields() {
  static const std::vector<std::string> fields = {"dtype",       "torch_dtype", "attention_dropout",   "hidden_dropout",
                                                  "resid_pdrop", "embd_pdrop",  "router_aux_loss_coef"};
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
                                                  "initializer_range"};
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
  text += "\nRecipe of the training, not used: " + markdown_list(hf_recipe_fields());
  text += "\nIgnored: " + markdown_list(hf_ignored_fields());
  return text;
}

}  // namespace ballast
