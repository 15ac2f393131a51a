// SPDX-License-Identifier: Apache-2.0
// A config.json that is being read: its fields, typed, and the keys they set.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "config/assignment.h"

namespace ballast {

class HfReader {
 public:
  /// `root` must outlive the reader. `path` is the file's, for error lines.
  HfReader(const nlohmann::json& root, std::string path);

  const std::string& path() const { return path_; }

  /// The value of a top-level field; nullptr if it is absent or null.
  const nlohmann::json* find(const std::string& field) const;
  bool is_absent(const std::string& field) const;

  /// Top-level fields, nothing if absent or null. Throw ConfigError for another type.
  std::optional<int64_t> integer(const std::string& field) const;
  std::optional<double> number(const std::string& field) const;
  std::optional<bool> boolean(const std::string& field) const;

  /// Values of any depth; `label` is how error lines name them ("rope_scaling.factor").
  int64_t to_integer(const nlohmann::json& value, const std::string& label) const;
  double to_number(const nlohmann::json& value, const std::string& label) const;
  bool to_boolean(const nlohmann::json& value, const std::string& label) const;
  std::string to_string(const nlohmann::json& value, const std::string& label) const;

  /// `key` gets `value_text` because of `label` in the file.
  void assign(const std::string& key, const std::string& value_text, const std::string& label);
  /// `key` gets `value_text` because the family says so.
  void assign_default(const std::string& key, const std::string& value_text, const std::string& model_type);
  const std::vector<KeyAssignment>& assignments() const { return assignments_; }

  /// Top-level fields that are there and not null, by name.
  std::vector<std::string> set_fields() const;

  [[noreturn]] void fail(const std::string& label, const std::string& what, const std::string& got,
                         const std::string& need) const;

 private:
  const nlohmann::json& root_;
  std::string path_;
  std::vector<KeyAssignment> assignments_;
};

}  // namespace ballast
