// SPDX-License-Identifier: Apache-2.0
#include "config/hf_reader.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "errors/errors.h"

namespace ballast {

HfReader::HfReader(const nlohmann::json& root, std::string path) : root_(root), path_(std::move(path)) {}

const nlohmann::json* HfReader::find(const std::string& field) const {
  const auto found = root_.find(field);
  return found == root_.end() || found->is_null() ? nullptr : &*found;
}

bool HfReader::is_absent(const std::string& field) const {
  return !root_.contains(field);
}

std::optional<int64_t> HfReader::integer(const std::string& field) const {
  const nlohmann::json* value = find(field);
  return value == nullptr ? std::nullopt : std::optional(to_integer(*value, field));
}

std::optional<double> HfReader::number(const std::string& field) const {
  const nlohmann::json* value = find(field);
  return value == nullptr ? std::nullopt : std::optional(to_number(*value, field));
}

std::optional<bool> HfReader::boolean(const std::string& field) const {
  const nlohmann::json* value = find(field);
  return value == nullptr ? std::nullopt : std::optional(to_boolean(*value, field));
}

int64_t HfReader::to_integer(const nlohmann::json& value, const std::string& label) const {
  if (value.is_number_integer()) return value.get<int64_t>();
  constexpr double kLargestExact = 9007199254740992.0;  // 2^53
  if (value.is_number_float()) {
    const double real = value.get<double>();
    if (std::trunc(real) == real && std::abs(real) <= kLargestExact) return static_cast<int64_t>(real);
  }
  fail(label, "wrong type", value.dump(), "an integer");
}

double HfReader::to_number(const nlohmann::json& value, const std::string& label) const {
  if (!value.is_number()) fail(label, "wrong type", value.dump(), "a number");
  return value.get<double>();
}

bool HfReader::to_boolean(const nlohmann::json& value, const std::string& label) const {
  if (!value.is_boolean()) fail(label, "wrong type", value.dump(), "true or false");
  return value.get<bool>();
}

std::string HfReader::to_string(const nlohmann::json& value, const std::string& label) const {
  if (!value.is_string()) fail(label, "wrong type", value.dump(), "a string");
  return value.get<std::string>();
}

void HfReader::assign(const std::string& key, const std::string& value_text, const std::string& label) {
  assignments_.push_back({.key = key, .value_text = value_text, .origin = "config.json:" + label});
}

void HfReader::assign_default(const std::string& key, const std::string& value_text, const std::string& model_type) {
  assignments_.push_back(
      {.key = key, .value_text = value_text, .origin = "default of model_type " + model_type, .is_default = true});
}

std::vector<std::string> HfReader::set_fields() const {
  std::vector<std::string> fields;
  for (const auto& [field, value] : root_.items()) {
    if (!value.is_null()) fields.push_back(field);
  }
  return fields;
}

void HfReader::fail(const std::string& label, const std::string& what, const std::string& got,
                    const std::string& need) const {
  Fault fault;
  fault.where = "config: " + path_ + (label.empty() ? "" : " " + label);
  fault.what = what;
  fault.got = got;
  fault.need = need;
  throw ConfigError(fault);
}

}  // namespace ballast
