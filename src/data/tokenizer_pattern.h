// SPDX-License-Identifier: Apache-2.0
// What a Split or a Replace of tokenizer.json looks for: a fixed text or a regular expression.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "data/tokenizer_regex.h"

namespace ballast {

class JsonView;

/// Walks the matches of a pattern the way the Hugging Face library does.
class TextPattern {
 public:
  /// @param description  `{"String": text}` or `{"Regex": expression}`
  /// @throws DataError for another form, an empty text, an expression that does not compile
  explicit TextPattern(const JsonView& description);
  /// A regular expression of our own.
  explicit TextPattern(const std::string& expression) : regex_(Regex(expression, "tokenizer")) {}
  explicit TextPattern(Regex expression) : regex_(std::move(expression)) {}
  /// @throws DataError when the text is empty
  static TextPattern literal(const JsonView& text);

  /// Calls `visit(TextRange, bool is_match)` for the matches and the stretches between them, which together are
  /// `text`. An empty match right after a match is passed over; other empty matches are visited.
  template <typename Visit>
  void cut(std::string_view text, Visit&& visit) const {
    size_t done = 0;
    size_t from = 0;
    bool has_match = false;
    while (from <= text.size()) {
      const std::optional<TextRange> match = find(text, from);
      if (!match) break;
      if (match->begin == match->end && has_match && match->end == done) {
        from = after_character(text, from);
        continue;
      }
      if (done < match->begin) visit(TextRange{done, match->begin}, false);
      visit(*match, true);
      has_match = true;
      from = done = match->end;
    }
    if (done < text.size()) visit(TextRange{done, text.size()}, false);
  }

 private:
  TextPattern() = default;
  void read_literal(const JsonView& text);
  std::optional<TextRange> find(std::string_view text, size_t from) const;
  static size_t after_character(std::string_view text, size_t from);

  std::string literal_;
  std::optional<Regex> regex_;  ///< empty: look for literal_
};

}  // namespace ballast
