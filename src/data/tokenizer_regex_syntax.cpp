// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/tokenizer_regex_syntax.h"

#include <pcre2.h>

#include <array>
#include <cctype>
#include <optional>
#include <vector>

namespace ballast {
namespace {

/// `\w` inside a class. Outside, Oniguruma's also has the numbers of Latin-1 that are no digits.
constexpr const char* kWordItems = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
constexpr const char* kWord = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}]";
constexpr const char* kAnyCharacter = "(?s:.)";

struct NamedProperty {
  std::string_view name;
  const char* items;  ///< what stands for it inside a class of PCRE2
};
/// Names that Oniguruma knows and PCRE2 does not, in both `\p{...}` and `[:...:]`.
constexpr std::array<NamedProperty, 16> kProperties = {{
    {"alpha", "\\p{Alphabetic}"},
    {"alnum", "\\p{Alphabetic}\\p{Nd}"},
    {"digit", "\\p{Nd}"},
    {"space", "\\p{White_Space}"},
    {"upper", "\\p{Uppercase}"},
    {"lower", "\\p{Lowercase}"},
    {"punct", "\\p{P}"},
    {"word", kWordItems},
    {"xdigit", "0-9A-Fa-f"},
    {"ascii", "\\x00-\\x7F"},
    {"letter", "\\p{L}"},
    {"mark", "\\p{M}"},
    {"number", "\\p{N}"},
    {"punctuation", "\\p{P}"},
    {"symbol", "\\p{S}"},
    {"separator", "\\p{Z}"},
}};

std::optional<std::string> named_items(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c != ' ' && c != '_' && c != '-') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const NamedProperty& property : kProperties) {
    if (property.name == plain) return property.items;
  }
  return std::nullopt;
}

/// Whether PCRE2 knows a script of this name. `\p{sc:NAME}` is then the characters of that script alone, as in
/// Oniguruma; PCRE2's `\p{NAME}` would add those the script shares with others.
bool is_script(const std::string& name) {
  const std::string pattern = "\\p{sc:" + name + "}";
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF, &error, &offset, nullptr);
  const bool is_known = code != nullptr;
  pcre2_code_free(code);
  return is_known;
}

/// One operand of a class: the items of a plain PCRE2 class, and sets that only an expression of their own can say.
struct CharacterSet {
  std::string items;
  std::vector<std::string> nested;

  std::string expression() const {
    if (nested.empty()) return items.empty() ? "(?!)" : "[" + items + "]";
    std::string all = items.empty() ? "" : "[" + items + "]";
    for (const std::string& set : nested) all += (all.empty() ? "" : "|") + set;
    return "(?:" + all + ")";
  }
};

class Translator {
 public:
  Translator(std::string_view pattern, RegexSyntax syntax) : in_(pattern), is_rust_(syntax == RegexSyntax::kRust) {}

  std::string run() {
    groups_.push_back({});
    while (i_ < in_.size()) step();
    out_.append(groups_.back().open_options, ')');
    return std::move(out_);
  }

 private:
  struct Group {
    size_t start = 0;         ///< where its `(` stands in the output
    size_t open_options = 0;  ///< `(?i:` written for `(?i)`, to be closed with the group
  };

  bool next_is(std::string_view text) const { return in_.substr(i_).starts_with(text); }
  bool accept(std::string_view text) {
    if (!next_is(text)) return false;
    i_ += text.size();
    return true;
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw RegexSyntaxError(what + " (at byte " + std::to_string(i_) + ")");
  }
  char take() {
    if (i_ == in_.size()) refuse("unexpected end");
    return in_[i_++];
  }
  std::string take_until(char end) {
    const size_t stop = in_.find(end, i_);
    if (stop == std::string_view::npos) refuse(std::string("missing ") + end);
    std::string text(in_.substr(i_, stop - i_));
    i_ = stop + 1;
    return text;
  }
  void atom(const std::string& text) {
    atom_start_ = out_.size();
    out_ += text;
  }

  void step() {
    const char c = take();
    switch (c) {
      case '\\':
        return escape();
      case '[':
        return atom(char_class());
      case '(':
        return open_group();
      case ')':
        return close_group();
      case '{':
        return interval();
      case '|':
      case '*':
      case '+':
      case '?':
        out_ += c;
        return;
      case '^':
      case '$':
        out_ += !is_rust_ ? std::string(1, c) : c == '^' ? "\\A" : "\\z";
        return;
      default:
        // A character of several bytes is one atom.
        if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) atom_start_ = out_.size();
        out_ += c;
    }
  }

  void open_group() {
    groups_.push_back({.start = out_.size(), .open_options = 0});
    if (next_is("*")) refuse("callouts (*...) are not supported");
    if (!next_is("?")) {
      out_ += '(';
      return;
    }
    if (accept("?#")) {
      take_until(')');
      groups_.pop_back();
      return;
    }
    for (const char* opener : {"?:", "?=", "?!", "?>", "?<=", "?<!"}) {
      if (!accept(opener)) continue;
      out_ += std::string("(") + opener;
      return;
    }
    if (accept("?<")) {
      out_ += "(?<" + take_until('>') + ">";
      return;
    }
    open_options();
  }

  void open_options() {
    ++i_;  // the question mark
    std::string options;
    while (!next_is(":") && !next_is(")")) {
      const char option = take();
      if (option != 'i' && (option != 'm' || is_rust_) && option != '-')
        refuse(std::string("group (?") + option + " is not supported");
      options += option == 'm' ? 's' : option;
    }
    const bool scoped = take() == ':';
    if (!scoped) {
      groups_.pop_back();
      ++groups_.back().open_options;
    }
    out_ += "(?" + options + ":";
  }

  void close_group() {
    out_.append(groups_.back().open_options, ')');
    out_ += ')';
    if (groups_.size() == 1) refuse("unmatched )");
    atom_start_ = groups_.back().start;
    groups_.pop_back();
  }

  /// After `{`: an interval, or the brace itself.
  void interval() {
    const size_t end = in_.find('}', i_);
    const std::string body(end == std::string_view::npos ? "" : in_.substr(i_, end - i_));
    const size_t comma = body.find(',');
    const bool is_interval = body.find_first_not_of("0123456789,") == std::string::npos && body.size() > (comma == 0) &&
                             comma == body.rfind(',');
    if (!is_interval) return atom("\\{");
    i_ = end + 1;
    out_ += "{" + std::string(comma == 0 ? "0" : "") + body + "}";
    if (is_rust_) return;
    const bool optional = comma == std::string::npos && next_is("?");
    if (!optional && !next_is("+")) return;
    out_.insert(atom_start_, "(?:");
    out_ += std::string(")") + take();
  }

  void escape() {
    const char c = take();
    switch (c) {
      case 'w':
        return atom(kWord);
      case 'W':
        return atom(std::string("(?:(?!") + kWord + ")" + kAnyCharacter + ")");
      case 'b':
        return atom(boundary());
      case 'B':
        return atom("(?!" + boundary() + ")");
      case 'A':
      case 'z':
      case 'Z':
      case 'G':
      case 'R':
        return atom(std::string("\\") + c);
      case 'k':
        if (!accept("<")) refuse("\\k without <name>");
        return atom("\\k<" + take_until('>') + ">");
      default:
        break;
    }
    if (c >= '1' && c <= '9') return atom(std::string("\\") + c);
    CharacterSet set;
    class_escape(c, set);
    // One plain item needs no brackets.
    const bool is_single =
        set.nested.empty() && (set.items[0] != '\\' ? set.items.size() == 1 : set.items.rfind('\\') == 0);
    atom(is_single ? set.items : set.expression());
  }

  static std::string boundary() {
    const std::string word = kWord;
    return "(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))";
  }

  /// An escape that stands for one character or a set, inside or outside a class.
  void class_escape(char c, CharacterSet& set) {
    switch (c) {
      case 's':
        set.items += "\\p{White_Space}";
        return;
      case 'S':
        set.items += "\\P{White_Space}";
        return;
      case 'd':
        set.items += "\\p{Nd}";
        return;
      case 'D':
        set.items += "\\P{Nd}";
        return;
      case 'w':
        set.items += kWordItems;
        return;
      case 'W':
        set.nested.push_back(std::string("[^") + kWordItems + "]");
        return;
      case 'h':
        set.items += "0-9A-Fa-f";
        return;
      case 'H':
        set.nested.emplace_back("[^0-9A-Fa-f]");
        return;
      case 'p':
      case 'P':
        return property(c == 'P', set);
      case 't':
      case 'n':
      case 'r':
      case 'f':
      case 'a':
      case 'e':
        set.items += std::string("\\") + c;
        return;
      case 'v':
        set.items += "\\x0B";
        return;
      case 'x':
      case 'u':
      case '0':
        set.items += code_point(c);
        return;
      default:
        break;
    }
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte)) refuse(std::string("escape \\") + c + " is not supported");
    if (byte < 0x80) set.items += '\\';
    set.items += c;
  }

  void property(bool negated, CharacterSet& set) {
    if (!accept("{")) refuse("\\p without {name}");
    std::string name = take_until('}');
    if (name.starts_with("^")) {
      negated = !negated;
      name.erase(0, 1);
    }
    const std::optional<std::string> items = named_items(name);
    if (!items) {
      set.items += (negated ? "\\P{" : "\\p{") + std::string(is_script(name) ? "sc:" : "") + name + "}";
    } else if (negated) {
      set.nested.push_back("[^" + *items + "]");
    } else {
      set.items += *items;
    }
  }

  std::string hex_digits(size_t most) {
    std::string digits;
    while (digits.size() < most && i_ < in_.size() && std::isxdigit(static_cast<unsigned char>(in_[i_])))
      digits += take();
    return digits;
  }

  std::string code_point(char kind) {
    std::string digits = "0";
    if (kind == 'u') {
      digits = hex_digits(4);
      if (digits.size() != 4) refuse("\\u needs four hexadecimal digits");
    } else if (kind == 'x') {
      digits = accept("{") ? take_until('}') : hex_digits(2);
      const bool is_byte = !digits.empty() && digits.size() <= 2 && in_[i_ - 1] != '}';
      if (digits.empty() || (is_byte && std::stoul(digits, nullptr, 16) > 0x7F)) {
        refuse("\\x needs a value up to 7F, or braces");
      }
    }
    return "\\x{" + digits + "}";
  }

  /// After `[`: an expression that matches one character.
  std::string char_class() {
    const bool negated = accept("^");
    std::vector<CharacterSet> operands(1);
    bool is_first = true;
    while (is_first || !next_is("]")) {
      class_item(operands);
      is_first = false;
    }
    ++i_;
    if (operands.size() == 1 && operands[0].nested.empty()) {
      return (negated ? "[^" : "[") + operands[0].items + "]";
    }
    std::string all;
    for (size_t k = 0; k + 1 < operands.size(); ++k) all += "(?=" + operands[k].expression() + ")";
    all += operands.back().expression();
    return negated ? "(?:(?!" + all + ")" + kAnyCharacter + ")" : "(?:" + all + ")";
  }

  void class_item(std::vector<CharacterSet>& operands) {
    CharacterSet& set = operands.back();
    if (accept("&&")) {
      operands.emplace_back();
    } else if (accept("[:")) {
      const bool negated = accept("^");
      const std::string name = take_until(':');
      // A bracket's punctuation has the symbols too, a property's has not.
      const std::optional<std::string> items = name == "punct" ? "\\p{P}\\p{S}" : named_items(name);
      if (!items || !accept("]")) refuse("class [:" + name + ":] is not supported");
      if (negated) {
        set.nested.push_back("[^" + *items + "]");
      } else {
        set.items += *items;
      }
    } else if (accept("[")) {
      set.nested.push_back(char_class());
    } else if (accept("\\")) {
      const char c = take();
      if (c == 'b') {
        set.items += "\\x08";
      } else {
        class_escape(c, set);
      }
    } else {
      const char c = take();
      if (c == ']' || c == '^') set.items += '\\';
      set.items += c;
    }
  }

  std::string_view in_;
  bool is_rust_;
  size_t i_ = 0;
  std::string out_;
  size_t atom_start_ = 0;
  std::vector<Group> groups_;
};

}  // namespace

std::string to_pcre2(std::string_view pattern, RegexSyntax syntax) {
  return Translator(pattern, syntax).run();
}

}  // namespace ballast
