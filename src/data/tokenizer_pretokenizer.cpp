// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_pretokenizer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "data/tokenizer_json_view.h"
#include "data/tokenizer_pattern.h"
#include "data/tokenizer_utf8.h"

namespace ballast {
namespace {

/// GPT-2's words: English contractions, and runs of letters, digits or other signs with at most one space before.
constexpr const char* kGpt2Words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Rust's `\w`, which has the join controls, and the rest but white space.
constexpr const char* kWordsAndSigns =
    R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}\s]+)";

enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

Behavior behavior_of(const JsonView& name) {
  constexpr std::pair<const char*, Behavior> kNames[] = {{"Removed", Behavior::kRemoved},
                                                         {"Isolated", Behavior::kIsolated},
                                                         {"MergedWithPrevious", Behavior::kMergedWithPrevious},
                                                         {"MergedWithNext", Behavior::kMergedWithNext},
                                                         {"Contiguous", Behavior::kContiguous}};
  for (const auto& [text, behavior] : kNames) {
    if (name.text() == text) return behavior;
  }
  name.fail("unknown behavior", name.text(), "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

/// Holds back a part until it is known whether the next one belongs to it.
class PartJoiner {
 public:
  PartJoiner(std::string_view word, std::vector<std::string_view>& parts) : word_(word), parts_(parts) {}

  void start(TextRange part) {
    flush();
    held_ = part;
  }
  void extend_or_start(TextRange part) {
    if (held_) {
      held_->end = part.end;
    } else {
      held_ = part;
    }
  }
  void flush() {
    if (held_ && held_->begin < held_->end) parts_.push_back(word_.substr(held_->begin, held_->end - held_->begin));
    held_.reset();
  }

 private:
  std::string_view word_;
  std::vector<std::string_view>& parts_;
  std::optional<TextRange> held_;
};

class Split : public PreTokenizerStep {
 public:
  Split(TextPattern pattern, Behavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void cut(std::string_view word, WordList& list) const override {
    PartJoiner parts(word, list.spare);
    bool previous = false;
    pattern_.cut(word, [&](TextRange part, bool is_match) {
      const bool is_delimiter = is_match != invert_;
      if (behavior_ == Behavior::kRemoved) {
        if (!is_delimiter) parts.start(part);
      } else if (joins(is_delimiter, previous)) {
        parts.extend_or_start(part);
      } else {
        parts.start(part);
      }
      previous = is_delimiter;
    });
    parts.flush();
  }

 private:
  bool joins(bool is_delimiter, bool previous) const {
    switch (behavior_) {
      case Behavior::kMergedWithPrevious:
        return is_delimiter && !previous;
      case Behavior::kMergedWithNext:
        return !is_delimiter && previous;
      case Behavior::kContiguous:
        return is_delimiter == previous;
      default:
        return false;
    }
  }

  TextPattern pattern_;
  Behavior behavior_;
  bool invert_;
};

/// A word of its own storage in place of another one.
std::string_view replace_word(std::string_view word, std::string text, WordList& list) {
  const bool is_start = word.data() == list.text_start;
  const std::string_view replaced = list.owned.emplace_back(std::move(text));
  if (is_start) list.text_start = replaced.data();
  return replaced;
}

class PrefixSpace : public PreTokenizerStep {
 public:
  void cut(std::string_view word, WordList& list) const override {
    if (!word.starts_with(' ')) word = replace_word(word, " " + std::string(word), list);
    list.spare.push_back(word);
  }
};

/// Spaces become a mark, a mark is put in front, and words begin at marks.
class Metaspace : public PreTokenizerStep {
 public:
  explicit Metaspace(const JsonView& description) : mark_(description.member_text("replacement")) {
    if (mark_.empty() || utf8_step(mark_).bytes != mark_.size()) {
      description.member("replacement").fail("is not one character", "\"" + mark_ + "\"");
    }
    splits_ = description.boolean_or("split", true);
    scheme_ = description.has("prepend_scheme")                  ? scheme_of(description.member("prepend_scheme"))
              : description.boolean_or("add_prefix_space", true) ? Scheme::kAlways
                                                                 : Scheme::kNever;
  }

  void cut(std::string_view word, WordList& list) const override {
    std::string text;
    text.reserve(word.size() + word.size() / 2);
    const bool has_mark = word.starts_with(' ') || word.starts_with(mark_);
    const bool is_start = word.data() == list.text_start;
    if (!has_mark && (scheme_ == Scheme::kAlways || (scheme_ == Scheme::kFirst && is_start))) text = mark_;
    for (size_t done = 0; done < word.size();) {
      const size_t space = std::min(word.find(' ', done), word.size());
      text += word.substr(done, space - done);
      if (space < word.size()) text += mark_;
      done = space + 1;
    }
    std::string_view rest = replace_word(word, std::move(text), list);
    while (splits_) {
      const size_t next = rest.find(mark_, 1);
      if (next == std::string_view::npos) break;
      list.spare.push_back(rest.substr(0, next));
      rest.remove_prefix(next);
    }
    list.spare.push_back(rest);
  }

 private:
  enum class Scheme { kAlways, kFirst, kNever };
  static Scheme scheme_of(const JsonView& name) {
    if (name.text() == "always") return Scheme::kAlways;
    if (name.text() == "first") return Scheme::kFirst;
    if (name.text() == "never") return Scheme::kNever;
    name.fail("unknown scheme", name.text(), "always, first or never");
  }

  std::string mark_;
  Scheme scheme_;
  bool splits_;
};

}  // namespace

PreTokenizer::PreTokenizer(const JsonView& description) {
  add(description);
}

PreTokenizer PreTokenizer::isolating(TextPattern words) {
  PreTokenizer result;
  result.steps_.push_back(std::make_unique<Split>(std::move(words), Behavior::kIsolated, false));
  result.ends_in_bytes_ = true;
  return result;
}

void PreTokenizer::add(const JsonView& description) {
  const std::string& type = description.type();
  if (type == "Sequence") {
    for (const JsonView& step : description.member("pretokenizers").items()) add(step);
    return;
  }
  if (ends_in_bytes_) description.fail("ByteLevel must be the last pre-tokenizer", type + " after it");
  const auto add_split = [this](TextPattern pattern, Behavior behavior, bool inverts) {
    steps_.push_back(std::make_unique<Split>(std::move(pattern), behavior, inverts));
  };
  if (type == "ByteLevel") {
    add_byte_level(description);
  } else if (type == "Metaspace") {
    steps_.push_back(std::make_unique<Metaspace>(description));
  } else if (type == "Split") {
    add_split(TextPattern(description.member("pattern")), behavior_of(description.member("behavior")),
              description.boolean_or("invert", false));
  } else if (type == "Digits") {
    const bool is_individual = description.boolean_or("individual_digits", false);
    add_split(TextPattern("\\p{N}"), is_individual ? Behavior::kIsolated : Behavior::kContiguous, false);
  } else if (type == "Punctuation") {
    add_split(TextPattern("[\\p{P}$+<=>^`|~]"),
              description.has("behavior") ? behavior_of(description.member("behavior")) : Behavior::kIsolated, false);
  } else if (type == "Whitespace") {
    add_split(TextPattern(kWordsAndSigns), Behavior::kRemoved, true);
  } else if (type == "WhitespaceSplit") {
    add_split(TextPattern("\\s"), Behavior::kRemoved, false);
  } else if (type == "CharDelimiterSplit") {
    add_split(TextPattern::literal(description.member("delimiter")), Behavior::kRemoved, false);
  } else {
    description.fail_type(
        "ByteLevel, Metaspace, Split, Digits, Punctuation, Whitespace, WhitespaceSplit, CharDelimiterSplit or "
        "Sequence");
  }
}

void PreTokenizer::add_byte_level(const JsonView& description) {
  ends_in_bytes_ = true;
  if (description.boolean_or("add_prefix_space", true)) steps_.push_back(std::make_unique<PrefixSpace>());
  if (description.boolean_or("use_regex", true)) {
    steps_.push_back(std::make_unique<Split>(TextPattern(kGpt2Words), Behavior::kIsolated, false));
  }
}

void PreTokenizer::cut(std::string_view text, bool is_start, WordList& list) const {
  list.owned.clear();
  list.text_start = is_start ? text.data() : nullptr;
  list.words.clear();
  if (!text.empty()) list.words.push_back(text);
  for (const auto& step : steps_) {
    list.spare.clear();
    for (const std::string_view word : list.words) step->cut(word, list);
    list.words.swap(list.spare);
  }
}

}  // namespace ballast
