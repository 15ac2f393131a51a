// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/tokenizer_regex.h"

#include <pcre2.h>

#include "errors/errors.h"

namespace ballast {
namespace {

constexpr size_t kFirstJitStackBytes = size_t{32} << 10;
constexpr size_t kLargestJitStackBytes = size_t{64} << 20;

/// What a match writes into; PCRE2 wants one a thread.
class MatchState {
 public:
  MatchState() {
    data_ = pcre2_match_data_create(1, nullptr);
    context_ = pcre2_match_context_create(nullptr);
    stack_ = pcre2_jit_stack_create(kFirstJitStackBytes, kLargestJitStackBytes, nullptr);
    if (stack_ != nullptr) pcre2_jit_stack_assign(context_, nullptr, stack_);
  }
  MatchState(const MatchState&) = delete;
  MatchState& operator=(const MatchState&) = delete;
  ~MatchState() {
    pcre2_jit_stack_free(stack_);
    pcre2_match_context_free(context_);
    pcre2_match_data_free(data_);
  }
  pcre2_match_data* data() { return data_; }
  pcre2_match_context* context() { return context_; }

 private:
  pcre2_match_data* data_;
  pcre2_match_context* context_;
  pcre2_jit_stack* stack_;
};

std::string pcre2_message(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

pcre2_code* compile(const std::string& pattern, const std::string& where, RegexSyntax syntax) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  std::string reason;
  try {
    const std::string translated = to_pcre2(pattern, syntax);
    pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, context);
    pcre2_compile_context_free(context);
    if (code != nullptr) return code;
    reason = pcre2_message(error);
  } catch (const RegexSyntaxError& refused) {
    reason = refused.what();
  }
  throw DataError({.where = where,
                   .what = "the regular expression does not compile: " + reason,
                   .got = pattern,
                   .need = syntax == RegexSyntax::kOniguruma ? "an expression in Oniguruma's syntax"
                                                             : "an expression in Rust's syntax",
                   .attempt = {}});
}

}  // namespace

void Regex::Free::operator()(pcre2_real_code_8* code) const {
  pcre2_code_free(code);
}

Regex::Regex(const std::string& pattern, const std::string& where, RegexSyntax syntax)
    : code_(compile(pattern, where, syntax)), where_(where) {
  // Without machine code (another processor, a hardened kernel) pcre2_match interprets the pattern.
  pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
}

std::optional<TextRange> Regex::find(std::string_view text, size_t from) const {
  thread_local MatchState state;
  const int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                                PCRE2_NO_UTF_CHECK, state.data(), state.context());
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (found < 0) {
    throw DataError({.where = where_,
                     .what = "the regular expression fails on a text of " + std::to_string(text.size()) +
                             " bytes: " + pcre2_message(found),
                     .got = {},
                     .need = {},
                     .attempt = "shorter texts"});
  }
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(state.data());
  return TextRange{bounds[0], bounds[1]};
}

}  // namespace ballast
