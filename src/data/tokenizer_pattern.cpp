// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_pattern.h"

#include "data/tokenizer_json_view.h"
#include "data/tokenizer_utf8.h"

namespace ballast {

TextPattern::TextPattern(const JsonView& description) {
  if (description.has("Regex")) {
    const JsonView expression = description.member("Regex");
    regex_.emplace(expression.text(), expression.where());
  } else if (description.has("String")) {
    read_literal(description.member("String"));
  } else {
    description.fail("unknown kind of pattern", {}, "{\"String\": text} or {\"Regex\": expression}");
  }
}

TextPattern TextPattern::literal(const JsonView& text) {
  TextPattern pattern;
  pattern.read_literal(text);
  return pattern;
}

void TextPattern::read_literal(const JsonView& text) {
  literal_ = text.text();
  if (literal_.empty()) text.fail("an empty text is found everywhere", "\"\"", "a text of one character or more");
}

std::optional<TextRange> TextPattern::find(std::string_view text, size_t from) const {
  if (regex_) return regex_->find(text, from);
  const size_t begin = text.find(literal_, from);
  if (begin == std::string_view::npos) return std::nullopt;
  return TextRange{begin, begin + literal_.size()};
}

size_t TextPattern::after_character(std::string_view text, size_t from) {
  return from < text.size() ? from + utf8_step(text.substr(from)).bytes : from + 1;
}

}  // namespace ballast
