// SPDX-License-Identifier: Apache-2.0
// The table of all keys, made from keys.def.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/config.h"
#include "config/key_rule.h"
#include "config/value.h"

namespace ballast {

/// Whether the model's file or the command line wins, see keys.def.
enum class Precedence { kHard, kSoft };

/// A member of Config; monostate for a key without a field.
using ConfigField =
    std::variant<std::monostate, bool Config::*, int64_t Config::*, double Config::*, std::string Config::*,
                 Config::Strings Config::*, Config::Ints Config::*, Config::OptionalInt Config::*,
                 Config::OptionalDouble Config::*, Config::OptionalBool Config::*>;

struct KeyInfo {
  std::string_view group;  ///< heading in the documentation
  std::string_view name;
  ValueKind kind = ValueKind::kString;
  bool can_be_absent = false;  ///< None is a value of its own
  std::string_view default_text;
  Precedence precedence = Precedence::kSoft;
  KeyRule rule;
  std::string_view meaning;
  ConfigField field;

  /// Empty if `value` is not of this key's kind.
  std::optional<TypedValue> read(const Value& value) const;
  TypedValue default_value() const;
  /// True if a list of the rule holds `word`.
  bool is_listed(const std::string& word) const;
};

/// All keys in the order of keys.def.
const std::vector<KeyInfo>& key_table();

/// The row of a key or of one of its other spellings; null if there is none.
const KeyInfo* find_key(std::string_view name);

/// Other spelling and key.
const std::vector<std::pair<std::string_view, std::string_view>>& key_aliases();

/// True if some key is named `group.<something>`.
bool is_key_group(std::string_view group);

/// At most three known keys that look like `name`, nearest first.
std::vector<std::string> near_keys(std::string_view name);

/// The words of `candidates` that look like `name`, nearest first: at most three, at an edit distance of at most a
/// third of its length.
std::vector<std::string> near_words(std::string_view name, const std::vector<std::string>& candidates);

/// "a, b or c"; empty for no word.
std::string join_or(const std::vector<std::string>& words);

/// The words of `a|b`; one empty word for an empty list.
std::vector<std::string> split_words(std::string_view list);

/// The typed value of a row in `config`: of its field, or of Config::fieldless.
TypedValue get_value(const Config& config, const KeyInfo& key);
void set_value(Config& config, const KeyInfo& key, const TypedValue& value);

/// Whether somebody wanted the value: base.yml lists every key at its default, and that alone says nothing.
bool is_chosen(const Config& config, const KeyInfo& key);

}  // namespace ballast
