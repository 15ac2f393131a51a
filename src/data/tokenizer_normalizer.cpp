// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "data/base64.h"
#include "data/tokenizer_charsmap.h"
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
    const std::string_view all = text;
    std::string replaced;
    replaced.reserve(text.size() + text.size() / 2);
    pattern_.cut(all, [&](TextRange range, bool is_match) {
      replaced += is_match ? content_ : all.substr(range.begin, range.end - range.begin);
    });
    text.swap(replaced);
  }

 private:
  TextPattern pattern_;
  std::string content_;
};

class Prepend : public NormalizerStep {
 public:
  explicit Prepend(std::string front) : front_(std::move(front)) {}
  void apply(std::string& text) const override {
    if (!text.empty()) text.insert(0, front_);
  }

 private:
  std::string front_;
};

class Strip : public NormalizerStep {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(std::string& text) const override {
    std::string_view rest = text;
    while (right_ && !rest.empty() && is_white_space(first_code_point(last_character(rest)))) {
      rest.remove_suffix(last_character(rest).size());
    }
    text.resize(rest.size());
    rest = text;
    while (left_ && !rest.empty() && is_white_space(first_code_point(rest))) {
      rest.remove_prefix(utf8_step(rest).bytes);
    }
    text.erase(0, text.size() - rest.size());
  }

 private:
  bool left_, right_;
};

/// Each character by itself: kept, changed or left out.
template <typename Change>
void change_characters(std::string& text, Change&& change) {
  std::string changed;
  changed.reserve(text.size());
  for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(utf8_step(rest).bytes)) {
    if (const std::optional<char32_t> character = change(first_code_point(rest))) append_utf8(*character, changed);
  }
  text.swap(changed);
}

class StripAccents : public NormalizerStep {
 public:
  void apply(std::string& text) const override {
    change_characters(text, [](char32_t character) -> std::optional<char32_t> {
      switch (utf8proc_category(static_cast<utf8proc_int32_t>(character))) {
        case UTF8PROC_CATEGORY_MN:
        case UTF8PROC_CATEGORY_MC:
        case UTF8PROC_CATEGORY_ME:
          return std::nullopt;
        default:
          return character;
      }
    });
  }
};

/// Control characters go, other white space and what cannot be seen becomes a space.
/// @source huggingface/tokenizers normalizers/unicode.rs, do_nmt
class Nmt : public NormalizerStep {
 public:
  void apply(std::string& text) const override {
    change_characters(text, [](char32_t c) -> std::optional<char32_t> {
      if ((c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F) {
        return std::nullopt;
      }
      const bool is_space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                            (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
                            c == 0xFFFD;
      return is_space ? U' ' : c;
    });
  }
};

class Precompiled : public NormalizerStep {
 public:
  explicit Precompiled(const JsonView& map) : map_(read(map)) {}
  void apply(std::string& text) const override { map_.apply(text); }

 private:
  static Charsmap read(const JsonView& map) {
    const std::optional<std::string> blob = decode_base64(map.text());
    if (!blob) map.fail("is not base64");
    std::optional<Charsmap> read = Charsmap::read(*blob);
    if (!read) map.fail("is not a character map of SentencePiece", std::to_string(blob->size()) + " bytes");
    return *std::move(read);
  }
  Charsmap map_;
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
  } else if (type == "Prepend") {
    steps_.push_back(std::make_unique<Prepend>(description.member_text("prepend")));
  } else if (type == "Strip") {
    steps_.push_back(std::make_unique<Strip>(description.boolean_or("strip_left", false),
                                             description.boolean_or("strip_right", false)));
  } else if (type == "StripAccents") {
    steps_.push_back(std::make_unique<StripAccents>());
  } else if (type == "Nmt") {
    steps_.push_back(std::make_unique<Nmt>());
  } else if (type == "Precompiled") {
    steps_.push_back(std::make_unique<Precompiled>(description.member("precompiled_charsmap")));
  } else {
    description.fail_type(
        "NFC, NFD, NFKC, NFKD, Lowercase, Replace, Prepend, Strip, StripAccents, Nmt, Precompiled or Sequence");
  }
}

void Normalizer::apply(std::string& text) const {
  for (const auto& step : steps_) step->apply(text);
}

}  // namespace ballast
