// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_decoder.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "data/tokenizer_byte_alphabet.h"
#include "data/tokenizer_json_view.h"
#include "data/tokenizer_pattern.h"
#include "data/tokenizer_utf8.h"

namespace ballast {
namespace {

using Tokens = std::vector<std::string>;

constexpr const char* kReplacementCharacter = "\xEF\xBF\xBD";

std::string joined(const Tokens& tokens, std::string_view between) {
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) text += between;
    text += tokens[i];
  }
  return text;
}

std::string repaired(const std::string& bytes) {
  std::string storage;
  return std::string(valid_utf8(bytes, storage));
}

class ByteLevel : public DecoderStep {
 public:
  void apply(Tokens& tokens) const override {
    std::string bytes;
    for (const std::string& token : tokens) bytes += token_bytes(token).value_or(token);
    tokens = {repaired(bytes)};
  }
};

/// A run of byte tokens becomes its text, or one U+FFFD a byte if it is not UTF-8 as a whole.
class ByteFallback : public DecoderStep {
 public:
  void apply(Tokens& tokens) const override {
    Tokens result;
    std::string bytes;
    const auto flush = [&] {
      std::string storage;
      if (valid_utf8(bytes, storage).data() == bytes.data()) {
        if (!bytes.empty()) result.push_back(bytes);
      } else {
        result.insert(result.end(), bytes.size(), kReplacementCharacter);
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const std::optional<uint8_t> byte = byte_of_token(token)) {
        bytes += static_cast<char>(*byte);
        continue;
      }
      flush();
      result.push_back(std::move(token));
    }
    flush();
    tokens.swap(result);
  }
};

class Fuse : public DecoderStep {
 public:
  void apply(Tokens& tokens) const override { tokens = {joined(tokens, "")}; }
};

/// Takes up to `start` and `stop` copies of a character from the ends of each token.
class StripEnds : public DecoderStep {
 public:
  explicit StripEnds(const JsonView& description)
      : content_(description.member_text("content")),
        start_(count(description, "start")),
        stop_(count(description, "stop")) {
    if (content_.empty()) description.member("content").fail("is empty", "\"\"", "one character");
  }
  void apply(Tokens& tokens) const override {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (uint64_t i = 0; i < start_ && rest.starts_with(content_); ++i) rest.remove_prefix(content_.size());
      for (uint64_t i = 0; i < stop_ && rest.ends_with(content_); ++i) rest.remove_suffix(content_.size());
      token = std::string(rest);
    }
  }

 private:
  static uint64_t count(const JsonView& description, const char* key) {
    const JsonView number = description.member(key);
    const bool is_count = number.value().is_number_integer() &&
                          (number.value().is_number_unsigned() || number.value().get<int64_t>() >= 0);
    if (!is_count) number.fail("wrong type", number.value().dump(), "a number from 0");
    return number.value().get<uint64_t>();
  }
  std::string content_;
  uint64_t start_, stop_;
};

class ReplaceInTokens : public DecoderStep {
 public:
  explicit ReplaceInTokens(const JsonView& description)
      : pattern_(description.member("pattern")), content_(description.member_text("content")) {}
  void apply(Tokens& tokens) const override {
    for (std::string& token : tokens) {
      const std::string_view all = token;
      std::string replaced;
      pattern_.cut(all, [&](TextRange range, bool is_match) {
        replaced += is_match ? content_ : all.substr(range.begin, range.end - range.begin);
      });
      token.swap(replaced);
    }
  }

 private:
  TextPattern pattern_;
  std::string content_;
};

/// Marks become spaces; those of the first token go, unless the scheme is "never".
class MetaspaceMarks : public DecoderStep {
 public:
  explicit MetaspaceMarks(const JsonView& description) : mark_(description.member_text("replacement")) {
    if (mark_.empty()) description.member("replacement").fail("is empty", "\"\"", "one character");
    keeps_first_ = description.has("prepend_scheme") ? description.member_text("prepend_scheme") == "never"
                                                     : !description.boolean_or("add_prefix_space", true);
  }
  void apply(Tokens& tokens) const override {
    bool drops = !keeps_first_;
    for (std::string& token : tokens) {
      std::string text;
      for (std::string_view rest = token; !rest.empty();) {
        const size_t mark = std::min(rest.find(mark_), rest.size());
        text += rest.substr(0, mark);
        if (mark == rest.size()) break;
        if (!drops) text += ' ';
        rest.remove_prefix(mark + mark_.size());
      }
      token.swap(text);
      drops = false;
    }
  }

 private:
  std::string mark_;
  bool keeps_first_;
};

}  // namespace

TokenDecoder::TokenDecoder(const JsonView& description) : is_absent_(false) {
  add(description);
}

TokenDecoder TokenDecoder::byte_level() {
  TokenDecoder decoder;
  decoder.is_absent_ = false;
  decoder.steps_.push_back(std::make_unique<ByteLevel>());
  return decoder;
}

void TokenDecoder::add(const JsonView& description) {
  const std::string& type = description.type();
  if (type == "Sequence") {
    for (const JsonView& step : description.member("decoders").items()) add(step);
  } else if (type == "ByteLevel") {
    steps_.push_back(std::make_unique<ByteLevel>());
  } else if (type == "ByteFallback") {
    steps_.push_back(std::make_unique<ByteFallback>());
  } else if (type == "Fuse") {
    steps_.push_back(std::make_unique<Fuse>());
  } else if (type == "Strip") {
    steps_.push_back(std::make_unique<StripEnds>(description));
  } else if (type == "Replace") {
    steps_.push_back(std::make_unique<ReplaceInTokens>(description));
  } else if (type == "Metaspace") {
    steps_.push_back(std::make_unique<MetaspaceMarks>(description));
  } else {
    description.fail_type("ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace or Sequence");
  }
}

std::string TokenDecoder::decode(std::vector<std::string> tokens) const {
  if (is_absent_) return repaired(joined(tokens, " "));
  for (const auto& step : steps_) step->apply(tokens);
  return repaired(joined(tokens, ""));
}

}  // namespace ballast
