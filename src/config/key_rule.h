// SPDX-License-Identifier: Apache-2.0
// What a key accepts and what it does in this version: the vocabulary of the rule column in keys.def.
#pragma once

#include <limits>
#include <string_view>

namespace ballast {

enum class Effect {
  kWorks,     ///< changes the run as documented
  kPlanned,   ///< a later version builds it; until then only neutral values
  kNoEffect,  ///< accepted for MaxText's sake, changes nothing
  kRefused,   ///< never built; only neutral values
  kComputed,  ///< derived from other keys, never set
};

/// Lists are written `a|b`; an empty member stands for the empty text.
struct KeyRule {
  Effect effect = Effect::kWorks;
  bool is_choice = false;        ///< nothing but `values` and `refused_values` exists
  std::string_view values = {};  ///< choice: what works; otherwise accepted beside the range or the default
  bool has_values = false;
  std::string_view later_values = {};    ///< choice: what a later version builds
  std::string_view refused_values = {};  ///< choice: what is never built ...
  std::string_view note = {};            ///< ... and why; or why the key has no effect or is refused
  std::string_view remark_values = {};   ///< values that are worth an info line ...
  std::string_view remark_text = {};     ///< ... and the line
  bool is_secret = false;                ///< never printed
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool excludes_low = false;
  bool excludes_high = false;

 private:
  template <class Change>
  constexpr KeyRule with(Change change) const {
    KeyRule rule = *this;
    change(rule);
    return rule;
  }

 public:  // below with(), whose body clang must have seen by then
  constexpr KeyRule from(double bound) const {
    return with([&](KeyRule& r) { r.low = bound; });
  }
  constexpr KeyRule upto(double bound) const {
    return with([&](KeyRule& r) { r.high = bound; });
  }
  constexpr KeyRule within(double a, double b) const { return from(a).upto(b); }
  constexpr KeyRule above(double bound) const {
    return with([&](KeyRule& r) { r.low = bound, r.excludes_low = true; });
  }
  constexpr KeyRule below(double bound) const {
    return with([&](KeyRule& r) { r.high = bound, r.excludes_high = true; });
  }
  /// These values too, whatever the range or the effect says.
  constexpr KeyRule also(std::string_view list) const {
    return with([&](KeyRule& r) { r.values = list, r.has_values = true; });
  }
  constexpr KeyRule later(std::string_view list) const {
    return with([&](KeyRule& r) { r.later_values = list; });
  }
  constexpr KeyRule refuse(std::string_view list, std::string_view why) const {
    return with([&](KeyRule& r) { r.refused_values = list, r.note = why; });
  }
  constexpr KeyRule remark(std::string_view list, std::string_view text) const {
    return with([&](KeyRule& r) { r.remark_values = list, r.remark_text = text; });
  }
  /// Checked like the rest, but nothing depends on it.
  constexpr KeyRule idle(std::string_view why) const {
    return with([&](KeyRule& r) { r.effect = Effect::kNoEffect, r.note = why; });
  }
  constexpr KeyRule secret() const {
    return with([](KeyRule& r) { r.is_secret = true; });
  }
};

/// Every value of the key's type.
constexpr KeyRule works() {
  return KeyRule();
}
/// Only these words, in any case.
constexpr KeyRule choice(std::string_view list) {
  KeyRule rule = works().also(list);
  rule.is_choice = true;
  return rule;
}
constexpr KeyRule rule_of(Effect effect, std::string_view note) {
  KeyRule rule;
  rule.effect = effect;
  rule.note = note;
  return rule;
}
constexpr KeyRule planned() {
  return rule_of(Effect::kPlanned, "not built yet in this version");
}
constexpr KeyRule no_effect(std::string_view why) {
  return rule_of(Effect::kNoEffect, why);
}
constexpr KeyRule refused(std::string_view pointer) {
  return rule_of(Effect::kRefused, pointer);
}
constexpr KeyRule computed() {
  return rule_of(Effect::kComputed, "computed from other keys");
}

}  // namespace ballast
