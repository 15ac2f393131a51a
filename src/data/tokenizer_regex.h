// SPDX-License-Identifier: Apache-2.0
// A compiled regular expression of a tokenizer, over PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/tokenizer_regex_syntax.h"

struct pcre2_real_code_8;

namespace ballast {

/// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin;
  size_t end;
};

/// Immutable once built; find() may be called from several threads at once.
class Regex {
 public:
  /// @param pattern  in Oniguruma's syntax, as in tokenizer.json, or Rust's (tokenizer_regex_syntax.h says what is
  /// read)
  /// @param where    start of the error line
  /// @throws DataError with the pattern when it does not compile
  Regex(const std::string& pattern, const std::string& where, RegexSyntax syntax = RegexSyntax::kOniguruma);

  /// Leftmost match that starts at byte `from` or later; look-behind sees the text before it.
  /// @param text  valid UTF-8
  /// @throws DataError when the expression needs more memory or steps on this text than PCRE2 grants
  std::optional<TextRange> find(std::string_view text, size_t from) const;

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::unique_ptr<pcre2_real_code_8, Free> code_;
  std::string where_;
};

}  // namespace ballast
