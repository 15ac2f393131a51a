// SPDX-License-Identifier: Apache-2.0
#include "config/hf_rope.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "config/value.h"
#include "errors/log.h"

namespace ballast {
namespace {

using Json = nlohmann::json;

/// One object with rotary fields: `rope_scaling`, `rope_parameters`, or an entry of the latter.
struct RopeObject {
  Json fields = Json::object();
  std::string label;
  bool is_entry = false;  ///< of one kind of attention, inside rope_parameters
};

/// The keys one object comes to.
struct RopeReading {
  double theta = 0;
  std::string theta_label;  ///< empty: class default
  double partial_rotary_factor = 1.0;
  std::string partial_label;           ///< empty: absent
  std::vector<KeyAssignment> scaling;  ///< rope_type first; `origin` holds the label
};

class RopeResolver {
 public:
  RopeResolver(const HfReader& reader, const HfFamily& family, double max_position_embeddings)
      : reader_(reader), family_(family), max_position_embeddings_(max_position_embeddings) {}

  RopeReading resolve(const RopeObject& object) const;

 private:
  const Json* find(const RopeObject& object, const std::string& field) const;
  std::optional<double> number(const RopeObject& object, const std::string& field) const;
  double required(const RopeObject& object, const std::string& field) const;
  std::string type_of(const RopeObject& object) const;
  double original_length(const RopeObject& object) const;
  double yarn_factor(const RopeObject& object) const;
  double yarn_attention_factor(const RopeObject& object, double factor) const;
  bool truncates(const RopeObject& object) const;
  void read_yarn(const RopeObject& object, RopeReading& reading) const;
  void check_softmax_scale(const RopeObject& object) const;
  void warn_about_unknown(const RopeObject& object) const;

  const HfReader& reader_;
  const HfFamily& family_;
  double max_position_embeddings_;
};

void add(RopeReading& reading, const RopeObject& object, const std::string& key, double value,
         const std::string& field) {
  reading.scaling.push_back({key, to_text(value), object.label + "." + field});
}

const Json* RopeResolver::find(const RopeObject& object, const std::string& field) const {
  const auto found = object.fields.find(field);
  return found == object.fields.end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> RopeResolver::number(const RopeObject& object, const std::string& field) const {
  const Json* value = find(object, field);
  return value == nullptr ? std::nullopt : std::optional(reader_.to_number(*value, object.label + "." + field));
}

double RopeResolver::required(const RopeObject& object, const std::string& field) const {
  const std::optional<double> value = number(object, field);
  if (!value)
    reader_.fail(object.label + "." + field, "missing", "", "a number, as rope_type=" + type_of(object) + " asks");
  return *value;
}

std::string RopeResolver::type_of(const RopeObject& object) const {
  for (const char* field : {"rope_type", "type"}) {
    if (const Json* value = find(object, field)) return reader_.to_string(*value, object.label + "." + field);
  }
  return "default";
}

double RopeResolver::original_length(const RopeObject& object) const {
  const std::string field = "original_max_position_embeddings";
  if (const auto top = reader_.number(field)) return *top;
  if (const auto own = number(object, field)) return *own;
  if (max_position_embeddings_ > 0) return max_position_embeddings_;
  return required(object, field);
}

double RopeResolver::yarn_factor(const RopeObject& object) const {
  if (const auto factor = number(object, "factor")) return *factor;
  if (max_position_embeddings_ > 0) return max_position_embeddings_ / original_length(object);
  return required(object, "factor");
}

double RopeResolver::yarn_attention_factor(const RopeObject& object, double factor) const {
  if (const auto given = number(object, "attention_factor")) return *given;
  const auto attention = [&](double weight) { return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0; };
  const double mscale = number(object, "mscale").value_or(0);
  const double mscale_all_dim = number(object, "mscale_all_dim").value_or(0);
  return mscale != 0 && mscale_all_dim != 0 ? attention(mscale) / attention(mscale_all_dim) : attention(1.0);
}

bool RopeResolver::truncates(const RopeObject& object) const {
  const Json* value = find(object, "truncate");
  if (value == nullptr) return true;
  const std::string label = object.label + ".truncate";
  const bool is_true = reader_.to_boolean(*value, label);
  if (object.is_entry && !is_true) {
    warn_once("config.json:" + label, "config: " + reader_.path() + " " + label +
                                          ": not used; transformers reads it from a flat rope_parameters only");
    return true;
  }
  return is_true;
}

void RopeResolver::read_yarn(const RopeObject& object, RopeReading& reading) const {
  const double factor = yarn_factor(object);
  reading.scaling = {{"rope_type", "yarn", object.label + ".rope_type"}};
  add(reading, object, "rope_factor", factor, "factor");
  add(reading, object, "original_max_position_embeddings", original_length(object), "original_max_position_embeddings");
  add(reading, object, "beta_fast", number(object, "beta_fast").value_or(32), "beta_fast");
  add(reading, object, "beta_slow", number(object, "beta_slow").value_or(1), "beta_slow");
  add(reading, object, "rope_attention_factor", yarn_attention_factor(object, factor), "attention_factor");
  reading.scaling.push_back({"rope_truncate", truncates(object) ? "true" : "false", object.label + ".truncate"});
  if (!family_.attends_by_latent) return;
  add(reading, object, "mscale", number(object, "mscale_all_dim").value_or(0), "mscale_all_dim");
}

void RopeResolver::check_softmax_scale(const RopeObject& object) const {
  const std::string type = type_of(object);
  const double weight = number(object, "mscale_all_dim").value_or(0);
  if (!family_.attends_by_latent || weight == 0 || type == "yarn" || type == "default") return;
  reader_.fail(object.label + ".mscale_all_dim", "a softmax scale that is not built with rope_type=" + type,
               to_text(weight), "0, or rope_type=yarn");
}

void RopeResolver::warn_about_unknown(const RopeObject& object) const {
  static const std::set<std::string> known = {"rope_type",        "type",
                                              "rope_theta",       "partial_rotary_factor",
                                              "factor",           "low_freq_factor",
                                              "high_freq_factor", "original_max_position_embeddings",
                                              "beta_fast",        "beta_slow",
                                              "attention_factor", "mscale",
                                              "mscale_all_dim",   "truncate"};
  for (const auto& [field, value] : object.fields.items()) {
    if (value.is_null() || known.contains(field)) continue;
    const std::string label = object.label + "." + field;
    warn_once("config.json:" + label, "config: " + reader_.path() + " " + label + ": unknown field, not used");
  }
}

RopeReading RopeResolver::resolve(const RopeObject& object) const {
  warn_about_unknown(object);
  check_softmax_scale(object);
  RopeReading reading;
  reading.theta = family_.rope_theta;
  if (const auto own = number(object, "rope_theta")) {
    reading.theta = *own;
    reading.theta_label = object.label + ".rope_theta";
  } else if (const auto top = reader_.number("rope_theta")) {
    reading.theta = *top;
    reading.theta_label = "rope_theta";
  }
  if (const auto own = number(object, "partial_rotary_factor")) {
    reading.partial_rotary_factor = *own;
    reading.partial_label = object.label + ".partial_rotary_factor";
  } else if (const auto top = reader_.number("partial_rotary_factor")) {
    reading.partial_rotary_factor = *top;
    reading.partial_label = "partial_rotary_factor";
  }
  const std::string type = type_of(object);
  const std::string type_label = object.label + ".rope_type";
  if (type == "default") {
    reading.scaling = {{"rope_type", "default", type_label}};
  } else if (type == "linear") {
    reading.scaling = {{"rope_type", "linear", type_label}};
    add(reading, object, "rope_linear_scaling_factor", required(object, "factor"), "factor");
  } else if (type == "llama3") {
    reading.scaling = {{"rope_type", "llama3.1", type_label}};
    add(reading, object, "rope_factor", required(object, "factor"), "factor");
    add(reading, object, "rope_low_freq_factor", required(object, "low_freq_factor"), "low_freq_factor");
    add(reading, object, "rope_high_freq_factor", required(object, "high_freq_factor"), "high_freq_factor");
    add(reading, object, "original_max_position_embeddings", original_length(object),
        "original_max_position_embeddings");
  } else if (type == "yarn") {
    read_yarn(object, reading);
  } else {
    reader_.fail(type_label, "unknown kind of rotary embedding", type, "default, linear, llama3 or yarn");
  }
  return reading;
}

bool is_per_layer_type(const Json& parameters) {
  for (const auto& [field, value] : parameters.items()) {
    if (value.is_object()) return true;
  }
  return false;
}

/// Objects of the full and of the sliding layers, before they are resolved.
struct RopeObjects {
  RopeObject full, sliding;
};

void take_entries(const HfReader& reader, const Json& parameters, RopeObjects& objects) {
  for (const auto& [kind, entry] : parameters.items()) {
    const std::string label = "rope_parameters." + kind;
    if (kind != "full_attention" && kind != "sliding_attention") {
      reader.fail(label, "unknown kind of attention", kind, "full_attention or sliding_attention");
    }
    if (entry.is_null()) continue;
    if (!entry.is_object()) reader.fail(label, "wrong type", entry.dump(), "an object");
    (kind == "full_attention" ? objects.full : objects.sliding) = {entry, label, true};
  }
}

RopeObjects find_objects(const HfReader& reader, const HfFamily& family) {
  const Json* scaling = reader.find("rope_scaling");
  const Json* parameters = reader.find("rope_parameters");
  for (const auto& [value, label] : {std::pair(scaling, "rope_scaling"), std::pair(parameters, "rope_parameters")}) {
    if (value != nullptr && !value->is_object()) reader.fail(label, "wrong type", value->dump(), "an object");
  }
  RopeObjects objects;
  objects.full.label = "rope_parameters";
  objects.sliding.label = "rope_parameters";
  if (parameters != nullptr && is_per_layer_type(*parameters)) {
    if (!family.has_rope_per_layer_type) {
      reader.fail("rope_parameters", "one entry a kind of attention is not a form of model_type " + family.model_type,
                  "", "rope_type, rope_theta and scaling fields");
    }
    take_entries(reader, *parameters, objects);
  } else if (parameters != nullptr && !parameters->empty() && (scaling == nullptr || scaling->empty())) {
    objects.full.fields = *parameters;
    objects.sliding.fields = *parameters;
    if (family.has_rope_per_layer_type) {
      warn_once("config.json:rope_parameters", "config: " + reader.path() +
                                                   " rope_parameters: taken for full and sliding layers alike; "
                                                   "transformers reads full_attention and sliding_attention entries");
    }
  }
  const auto is_empty = [](const Json* value) { return value == nullptr || value->empty(); };
  if (is_empty(scaling) && is_empty(parameters) && !family.class_rope.empty()) {
    objects.full.fields = Json::parse(family.class_rope);
  }
  if (scaling != nullptr && !scaling->empty()) {
    objects.full = {*scaling, "rope_scaling", false};
    if (!objects.sliding.is_entry) objects.sliding.label = "rope_scaling";
  }
  return objects;
}

void assign_theta(HfReader& reader, const std::string& key, const RopeReading& reading, const std::string& model_type) {
  if (reading.theta_label.empty()) {
    reader.assign_default(key, to_text(reading.theta), model_type);
  } else {
    reader.assign(key, to_text(reading.theta), reading.theta_label);
  }
}

/// Sliding layers that differ from the full ones can say so in theta and by having no scaling at all.
void assign_sliding(HfReader& reader, const std::string& model_type, const RopeReading& full,
                    const RopeReading& sliding) {
  if (sliding.theta != full.theta) assign_theta(reader, "local_rope_max_timescale", sliding, model_type);
  if (sliding.partial_rotary_factor != full.partial_rotary_factor) {
    reader.fail(sliding.partial_label.empty() ? full.partial_label : sliding.partial_label,
                "sliding and full layers rotate unlike parts of a head", to_text(sliding.partial_rotary_factor),
                to_text(full.partial_rotary_factor));
  }
  const auto same_value = [](const KeyAssignment& a, const KeyAssignment& b) {
    return a.key == b.key && a.value_text == b.value_text;
  };
  const bool is_same =
      std::equal(full.scaling.begin(), full.scaling.end(), sliding.scaling.begin(), sliding.scaling.end(), same_value);
  const KeyAssignment& type = sliding.scaling.front();
  if (is_same) return;
  if (type.value_text != "default") {
    reader.fail(type.origin, "the scaling of sliding layers is neither none nor that of the full layers",
                type.value_text, "default or equal fields");
  }
  reader.assign("local_rope_type", "default", type.origin);
}

}  // namespace

void read_hf_rope(HfReader& reader, const HfFamily& family, double max_position_embeddings) {
  const RopeObjects objects = find_objects(reader, family);
  const RopeResolver resolver(reader, family, max_position_embeddings);
  const RopeReading full = resolver.resolve(objects.full);
  assign_theta(reader, "rope_max_timescale", full, family.model_type);
  if (!full.partial_label.empty()) {
    reader.assign("partial_rotary_factor", to_text(full.partial_rotary_factor), full.partial_label);
  }
  for (const KeyAssignment& item : full.scaling) reader.assign(item.key, item.value_text, item.origin);
  if (!family.has_rope_per_layer_type) return;
  const RopeReading sliding = resolver.resolve(objects.sliding);
  if (sliding.theta_label == "rope_theta" && sliding.theta != family.rope_theta) {
    warn_once("config.json:rope_theta", "config: " + reader.path() +
                                            " rope_theta: taken for sliding layers too, where transformers keeps " +
                                            to_text(family.rope_theta));
  }
  assign_sliding(reader, family.model_type, full, sliding);
}

}  // namespace ballast
