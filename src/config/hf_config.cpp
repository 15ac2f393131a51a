// SPDX-License-Identifier: Apache-2.0
#include "config/hf_config.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "config/hf_alias.h"
#include "config/hf_reader.h"
#include "config/hf_rope.h"
#include "config/key_table.h"
#include "config/value.h"
#include "errors/errors.h"
#include "errors/log.h"
#include "files/json_text.h"

namespace ballast {
namespace {

using Json = nlohmann::json;

Json parse_file(const std::string& folder, const std::string& path) {
  Fault fault;
  if (!std::filesystem::is_directory(folder)) {
    fault.where = "config: hf_model_path";
    fault.what = "no such folder";
    fault.got = folder;
    fault.need = "a folder with config.json";
    throw ConfigError(fault);
  }
  fault.where = "config: " + path;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    fault.what = "cannot be read";
    fault.need = "the config.json of a Hugging Face model";
    throw ConfigError(fault);
  }
  try {
    Json root = parse_json(std::string(std::istreambuf_iterator<char>(stream), {}));
    if (root.is_object()) return root;
    fault.what = "not an object";
    fault.got = root.type_name();
  } catch (const Json::parse_error& error) {
    fault.what = "not JSON";
    fault.got = error.byte == 0 ? "a number out of range" : "a fault at byte " + std::to_string(error.byte);
  }
  fault.need = "one JSON object";
  throw ConfigError(fault);
}

const HfFamily& family_of(const HfReader& reader) {
  std::vector<std::string> names;
  const Json* value = reader.find("model_type");
  const std::string model_type = value == nullptr ? "" : reader.to_string(*value, "model_type");
  for (const HfFamily& family : hf_families()) {
    const auto& aliases = family.aliases;
    const bool is_alias = std::find(aliases.begin(), aliases.end(), model_type) != aliases.end();
    if (family.model_type == model_type || is_alias) return family;
    names.push_back(family.model_type);
  }
  reader.fail("model_type", value == nullptr ? "missing" : "not built", model_type, join_or(names));
}

std::string value_text(const HfReader& reader, const Json& value, HfType type, const std::string& field) {
  switch (type) {
    case HfType::kInteger:
      return std::to_string(reader.to_integer(value, field));
    case HfType::kNumber:
      return to_text(reader.to_number(value, field));
    case HfType::kBoolean:
      return reader.to_boolean(value, field) ? "true" : "false";
  }
  BALLAST_CHECK(false, field);
  return {};
}

/// Copies the table's fields. Keys that are derived where config.json is silent are left out and returned.
std::vector<std::string> read_fields(HfReader& reader, const HfFamily& family) {
  std::vector<std::string> derived_keys;
  for (const HfField& field : family.fields) {
    const auto is_set = [&](const std::string& spelling) { return reader.find(spelling) != nullptr; };
    const auto spelling = std::find_if(field.spellings.begin(), field.spellings.end(), is_set);
    // transformers takes a null here for "as many as query heads", whatever the class default
    const bool is_null_of_kv_heads = field.key == "base_num_kv_heads" && !reader.is_absent(field.spellings.front());
    if (spelling == field.spellings.end() && !field.null_value.empty() && !reader.is_absent(field.spellings.front())) {
      reader.assign(field.key, field.null_value, field.spellings.front());
    } else if (spelling != field.spellings.end()) {
      reader.assign(field.key, value_text(reader, *reader.find(*spelling), field.type, *spelling), *spelling);
    } else if (field.class_default.empty() || is_null_of_kv_heads) {
      derived_keys.push_back(field.key);
    } else {
      reader.assign_default(field.key, field.class_default, family.model_type);
    }
  }
  return derived_keys;
}

int64_t assigned_integer(const HfReader& reader, const std::string& key) {
  for (const KeyAssignment& item : reader.assignments()) {
    if (item.key == key) return std::stoll(item.value_text);
  }
  BALLAST_CHECK(false, key);
  return 0;
}

/// Throws where a field must be there.
void derive(HfReader& reader, const std::string& key) {
  const int64_t num_heads = assigned_integer(reader, "base_num_query_heads");
  const int64_t hidden_size = assigned_integer(reader, "base_emb_dim");
  if (num_heads < 1)
    reader.fail("num_attention_heads", "no decoder has this size", std::to_string(num_heads), "1 or more");
  if (key == "base_num_kv_heads") {
    reader.assign(key, std::to_string(num_heads), "num_attention_heads");
    return;
  }
  if (key == "num_experts_per_tok") reader.fail(key, "missing", "", "experts a token is sent to");
  BALLAST_CHECK(key == "head_dim", key);
  if (hidden_size % num_heads != 0) {
    reader.fail("hidden_size", "head_dim is absent and the heads do not share hidden_size evenly",
                std::to_string(hidden_size) + " on " + std::to_string(num_heads) + " heads", "a multiple of the heads");
  }
  reader.assign(key, std::to_string(hidden_size / num_heads), "hidden_size/num_attention_heads");
}

void check_rejections(const HfReader& reader) {
  for (const HfRejection& rejection : hf_rejections()) {
    const Json* value = reader.find(rejection.field);
    if (value == nullptr) continue;
    const auto& accepted = rejection.accepted;
    if (std::find(accepted.begin(), accepted.end(), value->dump()) != accepted.end()) continue;
    reader.fail(rejection.field, "changes the computation in a way that is not built", value->dump(), rejection.need);
  }
}

/// MXFP4 pairs are recognised by their names when weights are read; other codes are not known.
void check_quantization(const HfReader& reader) {
  const Json* value = reader.find("quantization_config");
  if (value == nullptr || (value->is_object() && value->value("quant_method", Json()) == "mxfp4")) return;
  reader.fail("quantization_config", "no decoder for these weights", value->dump(), "MXFP4, or none");
}

/// layer_types of config.json, checked; empty if it has none.
std::vector<std::string> read_layer_types(const HfReader& reader) {
  const Json* value = reader.find("layer_types");
  if (value == nullptr) return {};
  if (!value->is_array()) reader.fail("layer_types", "wrong type", value->dump(), "a list");
  const int64_t num_layers = assigned_integer(reader, "base_num_decoder_layers");
  std::vector<std::string> types;
  for (const Json& item : *value) {
    types.push_back(reader.to_string(item, "layer_types"));
    if (types.back() != "full_attention" && types.back() != "sliding_attention") {
      reader.fail("layer_types", "unknown kind of attention", types.back(), "full_attention or sliding_attention");
    }
  }
  if (static_cast<int64_t>(types.size()) != num_layers) {
    reader.fail("layer_types", "one entry a layer", std::to_string(types.size()) + " entries",
                "num_hidden_layers=" + std::to_string(num_layers));
  }
  return types;
}

void assign_layer_types(HfReader& reader, const std::vector<std::string>& types, const std::string& label) {
  std::string text;
  for (const std::string& type : types) text += (text.empty() ? "[" : ", ") + type;
  reader.assign("layer_types", text + "]", label);
}

/// sliding_window, or its class default where it is absent; nothing where it is null.
std::optional<int64_t> read_window(const HfReader& reader, const HfFamily& family) {
  if (!reader.is_absent("sliding_window")) return reader.integer("sliding_window");
  return family.class_window > 0 ? std::optional(family.class_window) : std::nullopt;
}

void assign_window(HfReader& reader, std::optional<int64_t> window, const std::string& reason) {
  if (!window) reader.fail("sliding_window", "sliding layers need a window (" + reason + ")", "none", "1 or more");
  reader.assign("sliding_window_size", std::to_string(*window), "sliding_window");
}

void read_late_layers(HfReader& reader, const HfFamily& family) {
  constexpr int64_t kFirstSlidingLayer = 28;  // class default of max_window_layers
  std::optional<int64_t> window = read_window(reader, family);
  const bool is_used = reader.boolean("use_sliding_window").value_or(false);
  if (!is_used) window.reset();
  const int64_t first = reader.integer("max_window_layers").value_or(kFirstSlidingLayer);
  std::vector<std::string> types = read_layer_types(reader);
  const std::string label = types.empty() ? "max_window_layers" : "layer_types";
  if (types.empty()) {
    const int64_t num_layers = assigned_integer(reader, "base_num_decoder_layers");
    for (int64_t i = 0; i < num_layers; ++i) {
      types.emplace_back(window && i >= first ? "sliding_attention" : "full_attention");
    }
  }
  if (std::find(types.begin(), types.end(), "sliding_attention") == types.end()) {
    reader.assign("attention_type", "global", label);
    return;
  }
  assign_layer_types(reader, types, label);
  assign_window(reader, window, is_used ? label : label + " with use_sliding_window=false");
}

void read_windows(HfReader& reader, const HfFamily& family) {
  const HfWindow kind = family.window;
  if (kind == HfWindow::kEveryLayer || kind == HfWindow::kIfUsed) {
    const bool is_used = kind == HfWindow::kEveryLayer || reader.boolean("use_sliding_window").value_or(false);
    const std::optional<int64_t> window = is_used ? read_window(reader, family) : std::nullopt;
    reader.assign("attention_type", window ? "local_sliding" : "global",
                  is_used ? "sliding_window" : "use_sliding_window");
    if (window) assign_window(reader, window, "");
  } else if (kind == HfWindow::kLateLayers) {
    read_late_layers(reader, family);
  } else if (kind == HfWindow::kPattern) {
    const std::vector<std::string> types = read_layer_types(reader);
    if (!types.empty()) assign_layer_types(reader, types, "layer_types");
    const std::optional<int64_t> window = read_window(reader, family);
    const bool any_slides = types.empty() || std::find(types.begin(), types.end(), "sliding_attention") != types.end();
    if (any_slides) assign_window(reader, window, types.empty() ? family.window_pattern : "layer_types");
  }
}

bool reads(const HfFamily& family, const std::string& field) {
  return std::find(family.rule_fields.begin(), family.rule_fields.end(), field) != family.rule_fields.end();
}

/// mlp_only_layers, which must be the first ones.
void read_dense_layers(HfReader& reader) {
  const Json* value = reader.find("mlp_only_layers");
  if (value == nullptr) return;
  if (!value->is_array()) reader.fail("mlp_only_layers", "wrong type", value->dump(), "a list");
  std::set<int64_t> layers;
  for (const Json& item : *value) layers.insert(reader.to_integer(item, "mlp_only_layers"));
  const auto num_dense = static_cast<int64_t>(layers.size());
  if (!layers.empty() && (*layers.begin() != 0 || *layers.rbegin() != num_dense - 1)) {
    reader.fail("mlp_only_layers", "layers without experts are the first ones", value->dump(), "[0, 1 ...] or []");
  }
  reader.assign("first_num_dense_layers", std::to_string(num_dense), "mlp_only_layers");
}

std::string label_of(const HfReader& reader, const HfFamily& family, const std::string& key) {
  for (const HfField& field : family.fields) {
    if (field.key != key) continue;
    for (const std::string& spelling : field.spellings) {
      if (reader.find(spelling) != nullptr) return spelling;
    }
    return field.spellings.front();
  }
  BALLAST_CHECK(false, key);
  return {};
}

/// What a key cannot say of experts: a single one is a dense layer there, and a limit of 0 is none.
void check_experts(HfReader& reader, const HfFamily& family) {
  const auto has_key = [&](const std::string& key) {
    return std::any_of(family.fields.begin(), family.fields.end(), [&](const HfField& f) { return f.key == key; });
  };
  if (!has_key("num_experts")) return;
  const int64_t num_experts = assigned_integer(reader, "num_experts");
  if (num_experts < 2) {
    reader.fail(label_of(reader, family, "num_experts"), "not a number of routed experts", std::to_string(num_experts),
                "2 or more");
  }
  for (const char* field : {"swiglu_limit", "swiglu_alpha"}) {
    const std::optional<double> value = has_key("mlp_activations_alpha") ? reader.number(field) : std::nullopt;
    if (value && !(*value > 0)) reader.fail(field, "experts need it", to_text(*value), "more than 0");
  }
  if (reads(family, "mlp_only_layers")) read_dense_layers(reader);
}

/// A field that has one meaning in the family, where it is there.
void check_word(const HfReader& reader, const std::string& field, const std::vector<std::string>& accepted) {
  const Json* value = reader.find(field);
  if (value == nullptr) return;
  const std::string word = reader.to_string(*value, field);
  if (std::find(accepted.begin(), accepted.end(), word) != accepted.end()) return;
  reader.fail(field, "changes the computation in a way that is not built", word, join_or(accepted));
}

void assign_groups(HfReader& reader, std::optional<int64_t> groups, std::optional<int64_t> kept,
                   const std::string& reason) {
  if (!groups) reader.fail("n_group", "missing", "", "the number of groups, as " + reason + " asks");
  if (!kept) reader.fail("topk_group", "missing", "", "the groups a token may use, as " + reason + " asks");
  reader.assign("n_routing_groups", std::to_string(*groups), "n_group");
  reader.assign("topk_routing_group", std::to_string(*kept), "topk_group");
}

/// What DeepSeek's configurations say of the router beyond the table.
void read_groups(HfReader& reader, const HfFamily& family) {
  constexpr int64_t kClassGroups = 8, kClassKeptGroups = 4;  // of V3
  if (family.groups == HfGroups::kNone) return;
  const std::optional<int64_t> groups = reader.integer("n_group"), kept = reader.integer("topk_group");
  if (family.groups == HfGroups::kAlways) {
    check_word(reader, "scoring_func", {"sigmoid"});
    check_word(reader, "topk_method", {"noaux_tc"});
    assign_groups(reader, groups.value_or(kClassGroups), kept.value_or(kClassKeptGroups), family.model_type);
    return;
  }
  check_word(reader, "scoring_func", {"softmax"});
  check_word(reader, "topk_method", {"greedy", "group_limited_greedy"});
  const Json* method = reader.find("topk_method");
  if (method != nullptr && *method == "group_limited_greedy") {
    assign_groups(reader, groups, kept, "topk_method=group_limited_greedy");
  } else {
    reader.assign("n_routing_groups", "-1", "topk_method");
    reader.assign("topk_routing_group", "-1", "topk_method");
  }
  if (reader.boolean("mlp_bias").value_or(false)) {
    reader.fail("mlp_bias", "dense and shared layers with biases beside experts without are not built", "true",
                "false");
  }
}

/// Prediction modules are a matter of the run, not of the model.
void report_prediction_layers(const HfReader& reader, const HfFamily& family) {
  for (const char* field : {"num_nextn_predict_layers", "num_mtp_layers"}) {
    const auto& ignored = family.ignored_fields;
    if (std::find(ignored.begin(), ignored.end(), field) == ignored.end()) continue;
    const std::optional<int64_t> count = reader.integer(field);
    if (count.value_or(0) == 0) continue;
    log_info("config: " + reader.path() + ": " + field + "=" + std::to_string(*count) +
             " not used; the run's mtp_num_layers decides");
  }
}

std::set<std::string> known_fields(const HfFamily& family) {
  std::set<std::string> known(family.rule_fields.begin(), family.rule_fields.end());
  for (const HfField& field : family.fields) known.insert(field.spellings.begin(), field.spellings.end());
  for (const HfRejection& rejection : hf_rejections()) known.insert(rejection.field);
  known.insert(hf_recipe_fields().begin(), hf_recipe_fields().end());
  known.insert(hf_ignored_fields().begin(), hf_ignored_fields().end());
  known.insert("quantization_config");
  known.insert(family.ignored_fields.begin(), family.ignored_fields.end());
  return known;
}

void report_unused(const HfReader& reader, const HfFamily& family) {
  std::string recipe;
  for (const std::string& field : hf_recipe_fields()) {
    const Json* value = reader.find(field);
    if (value != nullptr && *value != 0) recipe += (recipe.empty() ? "" : ", ") + field;
  }
  if (!recipe.empty()) {
    log_info("config: " + reader.path() + ": " + recipe + " not used; the run's own keys decide");
  }
  const std::set<std::string> known = known_fields(family);
  for (const std::string& field : reader.set_fields()) {
    if (known.contains(field)) continue;
    warn_once("config.json:" + field, "config: " + reader.path() + " " + field + ": not a field of model_type " +
                                          family.model_type + ", not used");
  }
}

}  // namespace

std::vector<KeyAssignment> hf_config_assignments(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "config.json").string();
  return hf_config_assignments(parse_file(folder, path), path);
}

std::vector<KeyAssignment> hf_config_assignments(const nlohmann::json& root, const std::string& path) {
  HfReader reader(root, path);
  const HfFamily& family = family_of(reader);
  check_rejections(reader);
  check_quantization(reader);
  for (const auto& [key, value] : family.implied) reader.assign(key, value, "model_type");
  for (const std::string& key : read_fields(reader, family)) derive(reader, key);
  const auto max_positions = assigned_integer(reader, "max_position_embeddings");
  read_hf_rope(reader, family, static_cast<double>(max_positions));
  read_windows(reader, family);
  check_experts(reader, family);
  read_groups(reader, family);
  report_prediction_layers(reader, family);
  report_unused(reader, family);
  return reader.assignments();
}

}  // namespace ballast
