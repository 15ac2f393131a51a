// SPDX-License-Identifier: Apache-2.0
// The resolved configuration: one typed field a key, under the key's name, and where each value came from.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/value.h"

namespace ballast {

/// All keys. Passed as `const Config&` once resolved; resolve.h makes one. Meaning, unit and range: docs/keys.md.
struct Config {
  using Strings = std::vector<std::string>;
  using Ints = std::vector<int64_t>;
  using OptionalInt = std::optional<int64_t>;
  using OptionalDouble = std::optional<double>;
  using OptionalBool = std::optional<bool>;

  /// Every key at its default; computed fields are zero or empty.
  Config();

#define BALLAST_GROUP(title)
#define BALLAST_KEY(type, field, ...) type field{};
#define BALLAST_KEY_AS(type, field, ...) type field{};
#define BALLAST_DERIVED(type, field, ...) type field{};
#define BALLAST_ALIAS(other, key)
#define BALLAST_KNOWN(...)
#include "config/keys.def"

  /// Where the value of `key` came from: "configs/base.yml:41", "models/llama2-7b.yml:7", "command line",
  /// "environment M_STEPS", "config.json:hidden_size", "default" or "derived". Throws InternalError for no such key.
  const std::string& origin(std::string_view key) const;
  void set_origin(std::string_view key, std::string origin);

  /// True if somebody gave `key` a value, be it the default's.
  bool is_given(std::string_view key) const { return origin(key) != "default"; }

  /// Values of known keys without a field, by key. Only those that were given.
  std::map<std::string, TypedValue, std::less<>> fieldless;

 private:
  std::map<std::string, std::string, std::less<>> origins_;  // of given and derived values
};

/// Every key with value and origin, one a line, sorted: `steps = 100  (command line)`. Secrets are masked.
std::string print_config(const Config& config);

/// A file from which resolve_config() makes the same values again: every key a user can set, one a line. Computed keys
/// and secrets are left out; hf_model_path and model_name are neutral, since the keys they fix are there.
std::string config_yml(const Config& config);

/// Keys whose lines differ between two texts of config_yml(): "steps: 20 -> 40".
std::vector<std::string> config_differences(const std::string& before, const std::string& now);
/// The values that are not their key's default, one line a source: `command line: steps=100 dtype=float32`; computed
/// values last. Secrets are masked.
std::vector<std::string> changed_values(const Config& config);

}  // namespace ballast
