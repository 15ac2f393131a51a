// SPDX-License-Identifier: Apache-2.0
// Rewrites the regular expressions of tokenizers as PCRE2's.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace ballast {

/// A construct of Oniguruma that is not rewritten; `what()` names it.
class RegexSyntaxError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Whose rules an expression follows: Oniguruma's (tokenizer.json), or those of Rust's fancy-regex (tiktoken), where
/// `X{1,3}+` is possessive, `^` and `$` are the ends of the text, and `(?m)` is not read.
enum class RegexSyntax { kOniguruma, kRust };

/// PCRE2 pattern (for PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, newline LF) that matches what Oniguruma's default
/// syntax makes of `pattern`. Where the two read the same text differently:
///   - `\s`, `\w`, `\b` follow Unicode's properties (PCRE2's `\s` has U+180E, its `\w` has no marks);
///   - `\h` is a hexadecimal digit, `\v` one character, `\uHHHH` a code point;
///   - classes nest and intersect: `[^a[bc]]`, `[\p{L}&&[^\p{Han}]]`;
///   - `X{1,3}+` is a repeated interval, not a possessive one; `X{2}?` may be absent; `X{,2}` starts at 0;
///   - `(?i)` reaches over the alternatives to the end of its group; `(?m)` lets the dot match a line feed.
/// @throws RegexSyntaxError for what has no counterpart here: options other than i and m, callouts, absent operators,
///         `\X`, `\K`, `\N`, `\O`, `\y`, `\Y`
/// @source Oniguruma's doc/RE and doc/SYNTAX.md
std::string to_pcre2(std::string_view pattern, RegexSyntax syntax = RegexSyntax::kOniguruma);

}  // namespace ballast
