// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "data/tokenizer_json_view.h"
#include "data/tokenizer_pattern.h"
#include "data/tokenizer_utf8.h"
#include "errors/errors.h"

namespace ballast {
namespace {

class UnicodeForm : public NormalizerStep {
 public:
  /// @param options     utf8proc's
  /// @param first_lead  texts whose bytes are all smaller are in this form already
  UnicodeForm(int options, unsigned char first_lead) : options_(options), first_lead_(first_lead) {}

  void apply(std::string& text) const override {
    const auto is_plain = [this](char c) { return static_cast<unsigned char>(c) < first_lead_; };
    if (std::all_of(text.begin(), text.end(), is_plain)) return;
    utf8proc_uint8_t* result = nullptr;
    const auto length =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                     &result, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options_));
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
    if (length == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
    BALLAST_CHECK(length >= 0, "utf8proc refused valid UTF-8");
    text.assign(reinterpret_cast<const char*>(result), static_cast<size_t>(length));
  }

 private:
  int options_;
  unsigned char first_lead_;
};

class Lowercase : public NormalizerStep {
 public:
  void apply(std::string& text) const override {
    std::string lower;
    for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(utf8_step(rest).bytes)) {
      const char32_t character = first_code_point(rest);
      // U+0130 is the one character whose lower case is two: i and a dot above.
      if (character == 0x130) {
        lower += "i\xCC\x87";
      } else {
        append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character))), lower);
      }
    }
    text.swap(lower);
  }
};

class Replace : public NormalizerStep {
 public:
  explicit Replace(const JsonView& description)
      : pattern_(description.member("pattern")), content_(description.member_text("content")) {}

  void apply(std::string& text) const override {
    std::string replaced;
    pattern_.cut(text, [&](TextRange range, bool is_match) {
      replaced += is_match ? content_ : text.substr(range.begin, range.end - range.begin);
    });
    text.swap(replaced);
  }

 private:
  TextPattern pattern_;
  std::string content_;
};

}  // namespace

Normalizer::Normalizer(const JsonView& description) {
  add(description);
}

void Normalizer::add(const JsonView& description) {
  // Composed Latin-1 and Latin Extended (lead bytes below CC) are their own NFC.
  constexpr unsigned char kBeforeMarks = 0xCC, kBeforeLatin1 = 0x80;
  const std::string& type = description.type();
  if (type == "Sequence") {
    for (const JsonView& step : description.member("normalizers").items()) add(step);
  } else if (type == "NFC") {
    steps_.push_back(std::make_unique<UnicodeForm>(UTF8PROC_COMPOSE, kBeforeMarks));
  } else if (type == "NFD") {
    steps_.push_back(std::make_unique<UnicodeForm>(UTF8PROC_DECOMPOSE, kBeforeLatin1));
  } else if (type == "NFKC") {
    steps_.push_back(std::make_unique<UnicodeForm>(UTF8PROC_COMPOSE | UTF8PROC_COMPAT, kBeforeLatin1));
  } else if (type == "NFKD") {
    steps_.push_back(std::make_unique<UnicodeForm>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, kBeforeLatin1));
  } else if (type == "Lowercase") {
    steps_.push_back(std::make_unique<Lowercase>());
  } else if (type == "Replace") {
    steps_.push_back(std::make_unique<Replace>(description));
  } else {
    description.fail_type("NFC, NFD, NFKC, NFKD, Lowercase, Replace or Sequence");
  }
}

void Normalizer::apply(std::string& text) const {
  for (const auto& step : steps_) step->apply(text);
}

}  // namespace ballast
