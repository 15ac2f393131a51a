// SPDX-License-Identifier: Apache-2.0
#include "config/key_table.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <type_traits>
#include <utility>

#include "errors/errors.h"

namespace ballast {
namespace {

using Strings = Config::Strings;
using Ints = Config::Ints;
using OptionalInt = Config::OptionalInt;
using OptionalDouble = Config::OptionalDouble;
using OptionalBool = Config::OptionalBool;
struct Anything {};

template <class Type>
struct Unwrapped {
  using type = Type;
  static constexpr bool kIsOptional = false;
};
template <class Type>
struct Unwrapped<std::optional<Type>> {
  using type = Type;
  static constexpr bool kIsOptional = true;
};

template <class Type>
constexpr ValueKind kind_of() {
  using Plain = typename Unwrapped<Type>::type;
  if constexpr (std::is_same_v<Plain, bool>) return ValueKind::kBool;
  if constexpr (std::is_same_v<Plain, int64_t>) return ValueKind::kInt;
  if constexpr (std::is_same_v<Plain, double>) return ValueKind::kDouble;
  if constexpr (std::is_same_v<Plain, std::string>) return ValueKind::kString;
  if constexpr (std::is_same_v<Plain, Strings>) return ValueKind::kStrings;
  if constexpr (std::is_same_v<Plain, Ints>) return ValueKind::kInts;
  return ValueKind::kAny;
}

template <class Type>
constexpr KeyInfo row(std::string_view name, std::string_view default_text, Precedence precedence, KeyRule rule,
                      std::string_view meaning, ConfigField field) {
  return {.group = {},
          .name = name,
          .kind = kind_of<Type>(),
          .can_be_absent = Unwrapped<Type>::kIsOptional,
          .default_text = default_text,
          .precedence = precedence,
          .rule = rule,
          .meaning = meaning,
          .field = field};
}

// A row that only names the group of those after it.
constexpr KeyInfo heading(std::string_view title) {
  KeyInfo info;
  info.group = title;
  return info;
}

constexpr std::string_view default_of_kind(ValueKind kind) {
  return kind == ValueKind::kInt ? "0" : "";
}

using enum Precedence;
constexpr KeyInfo kRows[] = {
#define BALLAST_GROUP(title) heading(title),
#define BALLAST_KEY(type, field, text, precedence, rule, meaning) \
  row<type>(#field, text, precedence, rule, meaning, &Config::field),
#define BALLAST_KEY_AS(type, field, key, text, precedence, rule, meaning) \
  row<type>(key, text, precedence, rule, meaning, &Config::field),
#define BALLAST_DERIVED(type, field, meaning) \
  row<type>(#field, default_of_kind(kind_of<type>()), kSoft, computed(), meaning, &Config::field),
#define BALLAST_ALIAS(other, key)
#define BALLAST_KNOWN(type, key, text, precedence, rule) row<type>(key, text, precedence, rule, "", std::monostate()),
#include "config/keys.def"
};

using Alias = std::pair<std::string_view, std::string_view>;
constexpr Alias kAliases[] = {
#define BALLAST_GROUP(title)
#define BALLAST_KEY(...)
#define BALLAST_KEY_AS(...)
#define BALLAST_DERIVED(...)
#define BALLAST_ALIAS(other, key) {other, key},
#define BALLAST_KNOWN(...)
#include "config/keys.def"
};

std::map<std::string_view, const KeyInfo*> index_by_name() {
  std::map<std::string_view, const KeyInfo*> index;
  for (const KeyInfo& key : key_table()) index[key.name] = &key;
  for (const auto& [other, name] : kAliases) index[other] = index.at(name);
  return index;
}

const std::map<std::string_view, const KeyInfo*>& name_index() {
  static const std::map<std::string_view, const KeyInfo*> index = index_by_name();
  return index;
}

// Levenshtein distance in which a swap of neighbours counts as one change.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  std::iota(cost[0].begin(), cost[0].end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, changed});
      const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::optional<TypedValue> KeyInfo::read(const Value& value) const {
  if (can_be_absent && is_absent(value)) return std::monostate();
  // `none` is a word where a choice lists it, as remat_policy does.
  if (rule.is_choice && is_absent(value) && is_listed(value.text)) return value.text;
  return to_typed(value, kind);
}

bool KeyInfo::is_listed(const std::string& word) const {
  for (const std::string_view list : {rule.values, rule.later_values, rule.refused_values}) {
    const std::vector<std::string> words = split_words(list);
    if (!word.empty() && std::find(words.begin(), words.end(), word) != words.end()) return true;
  }
  return false;
}

TypedValue KeyInfo::default_value() const {
  const std::optional<TypedValue> value = read(parse_scalar(default_text));
  BALLAST_CHECK(value.has_value(), "default of " + std::string(name));
  return *value;
}

const std::vector<KeyInfo>& key_table() {
  static const std::vector<KeyInfo> table = [] {
    std::vector<KeyInfo> rows;
    std::string_view group;
    for (const KeyInfo& info : kRows) {
      if (info.name.empty()) {
        group = info.group;
        continue;
      }
      rows.push_back(info);
      rows.back().group = group;
    }
    return rows;
  }();
  return table;
}

const KeyInfo* find_key(std::string_view name) {
  const auto found = name_index().find(name);
  return found == name_index().end() ? nullptr : found->second;
}

const std::vector<std::pair<std::string_view, std::string_view>>& key_aliases() {
  static const std::vector<Alias> aliases(std::begin(kAliases), std::end(kAliases));
  return aliases;
}

bool is_key_group(std::string_view group) {
  const std::string prefix = std::string(group) + ".";
  const auto next = name_index().lower_bound(prefix);
  return next != name_index().end() && next->first.starts_with(prefix);
}

std::vector<std::string> near_words(std::string_view name, const std::vector<std::string>& candidates) {
  std::vector<std::pair<size_t, std::string>> near;
  const size_t limit = std::max<size_t>(1, name.size() / 3);
  // A word that long is no slip of the fingers, and the distance would take long.
  if (name.size() > 100) return {};
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    if (distance <= limit) near.emplace_back(distance, candidate);
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> words;
  for (size_t i = 0; i < near.size() && words.size() < 3; ++i) {
    // Words much farther than the nearest only distract.
    if (near[i].first <= near[0].first + 1) words.push_back(near[i].second);
  }
  return words;
}

std::vector<std::string> near_keys(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& [key, info] : name_index()) {
    if (info->rule.effect != Effect::kComputed) names.emplace_back(key);
  }
  return near_words(name, names);
}

std::string join_or(const std::vector<std::string>& words) {
  std::string line;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) line += i + 1 == words.size() ? " or " : ", ";
    line += words[i];
  }
  return line;
}

std::vector<std::string> split_words(std::string_view list) {
  std::vector<std::string> words(1);
  for (const char c : list) {
    if (c == '|') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

TypedValue get_value(const Config& config, const KeyInfo& key) {
  return std::visit(
      [&](auto field) -> TypedValue {
        if constexpr (std::is_same_v<decltype(field), std::monostate>) {
          const auto given = config.fieldless.find(key.name);
          if (given == config.fieldless.end()) return key.default_value();
          return given->second;
        } else {
          using Type = std::remove_reference_t<decltype(config.*field)>;
          if constexpr (Unwrapped<std::remove_const_t<Type>>::kIsOptional) {
            return (config.*field).has_value() ? TypedValue(*(config.*field)) : TypedValue(std::monostate());
          } else {
            return config.*field;
          }
        }
      },
      key.field);
}

void set_value(Config& config, const KeyInfo& key, const TypedValue& value) {
  std::visit(
      [&](auto field) {
        if constexpr (std::is_same_v<decltype(field), std::monostate>) {
          config.fieldless[std::string(key.name)] = value;
        } else {
          using Type = std::remove_reference_t<decltype(config.*field)>;
          using Plain = typename Unwrapped<Type>::type;
          if (std::holds_alternative<std::monostate>(value)) {
            config.*field = Type();
          } else {
            config.*field = std::get<Plain>(value);
          }
        }
      },
      key.field);
}

bool is_chosen(const Config& config, const KeyInfo& key) {
  const std::string& origin = config.origin(key.name);
  const bool is_of_base_file = origin.starts_with("base.yml:") || origin.find("/base.yml:") != std::string::npos;
  return config.is_given(key.name) && !(is_of_base_file && get_value(config, key) == key.default_value());
}

}  // namespace ballast
