// SPDX-License-Identifier: Apache-2.0
#include "config/value.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace ballast {
namespace {

constexpr int kMaxNesting = 64;

std::string_view trim(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

bool is_one_of(const std::string& word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Reads nested lists and maps from one line of text.
class FlowReader {
 public:
  explicit FlowReader(std::string_view text) : rest_(text) {}

  std::optional<Value> read_all() {
    std::optional<Value> value = read(0);
    skip_space();
    if (!rest_.empty()) return std::nullopt;
    return value;
  }

 private:
  void skip_space() { rest_.remove_prefix(rest_.size() - trim_front(rest_).size()); }

  static std::string_view trim_front(std::string_view text) {
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
    return text;
  }

  bool take(char c) {
    skip_space();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::optional<Value> read(int depth) {
    if (depth > kMaxNesting) return std::nullopt;
    if (take('[')) return read_list(']', depth);
    if (take('(')) return read_list(')', depth);
    if (take('{')) return read_map(depth);
    return read_leaf(",[](){}");
  }

  std::optional<Value> read_list(char end, int depth) {
    Value list;
    list.shape = Value::Shape::kList;
    while (!take(end)) {
      std::optional<Value> item = read(depth + 1);
      if (!item) return std::nullopt;
      list.items.push_back(*std::move(item));
      if (take(',')) continue;
      if (!take(end)) return std::nullopt;
      break;
    }
    return list;
  }

  std::optional<Value> read_map(int depth) {
    Value map;
    map.shape = Value::Shape::kMap;
    while (!take('}')) {
      std::optional<Value> name = read_leaf(",[](){}:");
      if (!name || !take(':')) return std::nullopt;
      std::optional<Value> item = read(depth + 1);
      if (!item) return std::nullopt;
      map.names.push_back(std::move(name->text));
      map.items.push_back(*std::move(item));
      if (take(',')) continue;
      if (!take('}')) return std::nullopt;
      break;
    }
    return map;
  }

  std::optional<Value> read_leaf(std::string_view ends) {
    skip_space();
    if (rest_.empty()) return std::nullopt;
    const char quote = rest_.front();
    if (quote != '"' && quote != '\'') {
      const size_t length = std::min(rest_.find_first_of(ends), rest_.size());
      Value leaf;
      leaf.text = trim(rest_.substr(0, length));
      rest_.remove_prefix(length);
      if (leaf.text.empty()) return std::nullopt;
      return leaf;
    }
    rest_.remove_prefix(1);
    const size_t end = rest_.find(quote);
    if (end == std::string_view::npos) return std::nullopt;
    Value leaf;
    leaf.text = rest_.substr(0, end);
    leaf.is_quoted = true;
    rest_.remove_prefix(end + 1);
    return leaf;
  }

  std::string_view rest_;
};

// The digits without separators, or empty if this is no number: [+-] digits [. digits] [e [+-] digits].
std::string number_digits(std::string_view text) {
  std::string digits;
  size_t at = 0;
  const auto take_digits = [&] {
    const size_t before = digits.size();
    while (at < text.size() &&
           (std::isdigit(static_cast<unsigned char>(text[at])) || (text[at] == '_' && digits.size() > before))) {
      if (text[at] != '_') digits += text[at];
      ++at;
    }
    return digits.size() > before;
  };
  if (at < text.size() && (text[at] == '+' || text[at] == '-')) {
    if (text[at] == '-') digits += '-';
    ++at;
  }
  bool has_digits = take_digits();
  if (at < text.size() && text[at] == '.') {
    digits += '.';
    ++at;
    has_digits = take_digits() || has_digits;
  }
  if (!has_digits) return {};
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    digits += 'e';
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) digits += text[at++];
    if (!take_digits()) return {};
  }
  return at == text.size() ? digits : std::string();
}

std::optional<TypedValue> to_bool(const std::string& text) {
  const std::string word = lower(text);
  if (is_one_of(word, {"true", "yes", "on", "1"})) return true;
  if (is_one_of(word, {"false", "no", "off", "0"})) return false;
  return std::nullopt;
}

std::optional<double> to_double(const std::string& text) {
  const std::string digits = number_digits(text);
  if (digits.empty()) return std::nullopt;
  const double number = std::strtod(digits.c_str(), nullptr);
  if (!std::isfinite(number)) return std::nullopt;
  return number;
}

std::optional<int64_t> to_int(const std::string& text) {
  const std::string digits = number_digits(text);
  if (digits.empty()) return std::nullopt;
  int64_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, number);
  if (result.ec == std::errc() && result.ptr == end) return number;
  // 8.0 and 1e3 are integers too, as long as a double holds them exactly.
  const std::optional<double> real = to_double(text);
  if (result.ec != std::errc() || !real || std::trunc(*real) != *real || std::abs(*real) > 9007199254740992.0) {
    return std::nullopt;
  }
  return static_cast<int64_t>(*real);
}

// The entries of a list that may also be written as text in brackets or as one scalar. A pattern may start with a
// parenthesis, so only an open square bracket has to be a list.
std::optional<std::vector<Value>> list_entries(const Value& value) {
  if (value.shape == Value::Shape::kList) return value.items;
  if (value.shape == Value::Shape::kMap) return std::nullopt;
  if (is_absent(value) || value.text.empty()) return std::vector<Value>();
  const std::optional<Value> flow = parse_flow(value.text);
  if (flow && flow->shape == Value::Shape::kList) return flow->items;
  if (value.text.front() == '[') return std::nullopt;
  return std::vector<Value>{value};
}

std::optional<TypedValue> to_list(const Value& value, ValueKind kind) {
  const std::optional<std::vector<Value>> entries = list_entries(value);
  if (!entries) return std::nullopt;
  std::vector<std::string> words;
  std::vector<int64_t> numbers;
  for (const Value& entry : *entries) {
    if (entry.shape != Value::Shape::kScalar) return std::nullopt;
    words.push_back(entry.text);
    if (kind == ValueKind::kStrings) continue;
    const std::optional<int64_t> number = to_int(entry.text);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  if (kind == ValueKind::kStrings) return words;
  return numbers;
}

// The value in one spelling, whatever notation it came in.
Value normalised(Value value) {
  if (value.shape == Value::Shape::kScalar) {
    const bool may_be_nested = !value.is_quoted && (value.text.starts_with('[') || value.text.starts_with('{'));
    const std::optional<Value> nested = may_be_nested ? parse_flow(value.text) : std::nullopt;
    if (nested && nested->shape != Value::Shape::kScalar) return normalised(*nested);
    if (value.is_quoted) return value;
    const std::string word = lower(value.text);
    if (is_absent(value)) value.text = "None";
    if (is_one_of(word, {"true", "false"})) value.text = word;
    if (const std::optional<double> number = to_double(value.text)) value.text = to_text(TypedValue(*number));
  }
  for (Value& item : value.items) item = normalised(std::move(item));
  return value;
}

// An entry of a list needs quotes where it would read differently without them.
std::string entry_text(const std::string& text) {
  const bool is_plain = !text.empty() && text.find_first_of(",[](){}:'\"# \t\r\n") == std::string::npos;
  if (is_plain) return text;
  const char quote = text.find('\'') == std::string::npos ? '\'' : '"';
  return quote + text + quote;
}

}  // namespace

Value parse_scalar(std::string_view text) {
  text = trim(text);
  Value value;
  const bool has_quotes =
      text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front();
  if (has_quotes && text.find(text.front(), 1) == text.size() - 1) {
    text = text.substr(1, text.size() - 2);
    value.is_quoted = true;
  }
  value.text = text;
  return value;
}

std::optional<Value> parse_flow(std::string_view text) {
  text = trim(text);
  if (text.empty() || std::string_view("[({").find(text.front()) == std::string_view::npos) return parse_scalar(text);
  return FlowReader(text).read_all();
}

bool is_absent(const Value& value) {
  return value.shape == Value::Shape::kScalar && !value.is_quoted &&
         is_one_of(lower(value.text), {"", "~", "null", "none"});
}

std::optional<TypedValue> to_typed(const Value& value, ValueKind kind) {
  if (kind == ValueKind::kAny) return to_text(normalised(value));
  if (kind == ValueKind::kStrings || kind == ValueKind::kInts) return to_list(value, kind);
  if (value.shape != Value::Shape::kScalar) return std::nullopt;
  switch (kind) {
    case ValueKind::kBool:
      return to_bool(value.text);
    case ValueKind::kInt:
      return to_int(value.text);
    case ValueKind::kDouble:
      return to_double(value.text);
    default:
      return is_absent(value) ? std::string() : value.text;
  }
}

std::string_view describe(ValueKind kind) {
  switch (kind) {
    case ValueKind::kBool:
      return "true or false";
    case ValueKind::kInt:
      return "an integer of 64 bits";
    case ValueKind::kDouble:
      return "a finite number";
    case ValueKind::kString:
      return "text";
    case ValueKind::kStrings:
      return "a list of words";
    case ValueKind::kInts:
      return "a list of integers";
    case ValueKind::kAny:
      break;
  }
  return "anything";
}

std::string to_text(const TypedValue& value) {
  if (std::holds_alternative<std::monostate>(value)) return "None";
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  if (const auto* real = std::get_if<double>(&value)) {
    std::array<char, 32> buffer;
    return std::string(buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), *real).ptr);
  }
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  Value list;
  list.shape = Value::Shape::kList;
  const auto add = [&list](std::string text) {
    list.items.emplace_back();
    list.items.back().text = std::move(text);
  };
  if (const auto* words = std::get_if<std::vector<std::string>>(&value)) {
    for (const std::string& word : *words) add(word);
  } else {
    for (const int64_t number : std::get<std::vector<int64_t>>(value)) add(std::to_string(number));
  }
  return to_text(list);
}

std::string to_text(const Value& value) {
  if (value.shape == Value::Shape::kScalar) return value.text;
  const bool is_map = value.shape == Value::Shape::kMap;
  std::string text(1, is_map ? '{' : '[');
  for (size_t i = 0; i < value.items.size(); ++i) {
    if (i > 0) text += ", ";
    if (is_map) text += entry_text(value.names[i]) + ": ";
    const Value& item = value.items[i];
    text += item.shape == Value::Shape::kScalar ? entry_text(item.text) : to_text(item);
  }
  return text + (is_map ? '}' : ']');
}

}  // namespace ballast
