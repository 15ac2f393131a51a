// SPDX-License-Identifier: Apache-2.0
// The grammar of configuration values: text or YAML on one side, typed values on the other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ballast {

/// A value before its key's type is known: a scalar as it was written, a list or a map.
struct Value {
  enum class Shape { kScalar, kList, kMap };
  Shape shape = Shape::kScalar;
  std::string text;                ///< scalar: without its quotes
  bool is_quoted = false;          ///< a quoted None is a word, not an absent value
  std::vector<Value> items;        ///< list entries, or map values
  std::vector<std::string> names;  ///< map keys, parallel to items
};

/// What a key holds. kAny takes every shape and is only compared and printed.
enum class ValueKind { kBool, kInt, kDouble, kString, kStrings, kInts, kAny };

/// A value of a kind; monostate: absent (None). kAny is held as its normalised text.
using TypedValue =
    std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<std::string>, std::vector<int64_t>>;

/// A scalar, without one pair of quotes around the whole of it.
Value parse_scalar(std::string_view text);

/// `[a, b]`, `(a, b)` or `{a: 1}` with anything nested inside, or a scalar. Empty if brackets or quotes do not match,
/// or nest deeper than 64.
std::optional<Value> parse_flow(std::string_view text);

/// An unquoted `None`, `none`, `null`, `~`, or nothing at all.
bool is_absent(const Value& value);

/// The value as `kind`, empty if it is none:
/// * bool: true/false, yes/no, on/off, 1/0, any case;
/// * int: `10_000`, `+8`, `8.0`, `1e3`, within 64 bits;
/// * double: those, `.5`, `0.`, `1.e-8`; finite only;
/// * string: the text as written; absent: "";
/// * lists: a list, text in brackets, or one scalar that stands for a list of one; absent or empty text: no entry.
std::optional<TypedValue> to_typed(const Value& value, ValueKind kind);

/// What to_typed accepts, for error lines: "an integer of 64 bits".
std::string_view describe(ValueKind kind);

/// A value as text that to_typed reads back, unless a list holds a word with both kinds of quotes. Doubles in their
/// shortest exact form.
std::string to_text(const TypedValue& value);
std::string to_text(const Value& value);

}  // namespace ballast
