// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_pretokenizer.h"

#include <optional>
#include <utility>

#include "data/tokenizer_json_view.h"
#include "data/tokenizer_pattern.h"

namespace ballast {
namespace {

/// GPT-2's words: English contractions, and runs of letters, digits or other signs with at most one space before.
constexpr const char* kGpt2Words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

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

class PrefixSpace : public PreTokenizerStep {
 public:
  void cut(std::string_view word, WordList& list) const override {
    if (!word.starts_with(' ')) word = list.owned.emplace_back(" " + std::string(word));
    list.spare.push_back(word);
  }
};

}  // namespace

PreTokenizer::PreTokenizer(const JsonView& description) {
  add(description);
  if (!ends_in_bytes_) {
    description.fail("the pre-tokenizer does not end in ByteLevel", description.type(), "a byte-level BPE tokenizer");
  }
}

void PreTokenizer::add(const JsonView& description) {
  const std::string& type = description.type();
  if (type == "Sequence") {
    for (const JsonView& step : description.member("pretokenizers").items()) add(step);
    return;
  }
  if (ends_in_bytes_) description.fail("ByteLevel must be the last pre-tokenizer", type + " after it");
  if (type == "ByteLevel") {
    add_byte_level(description);
  } else if (type == "Split") {
    steps_.push_back(std::make_unique<Split>(TextPattern(description.member("pattern")),
                                             behavior_of(description.member("behavior")),
                                             description.boolean_or("invert", false)));
  } else if (type == "Digits") {
    const bool is_individual = description.boolean_or("individual_digits", false);
    steps_.push_back(std::make_unique<Split>(TextPattern("\\p{N}"),
                                             is_individual ? Behavior::kIsolated : Behavior::kContiguous, false));
  } else {
    description.fail_type("ByteLevel, Split, Digits or Sequence");
  }
}

void PreTokenizer::add_byte_level(const JsonView& description) {
  ends_in_bytes_ = true;
  if (description.boolean_or("add_prefix_space", true)) steps_.push_back(std::make_unique<PrefixSpace>());
  if (description.boolean_or("use_regex", true)) {
    steps_.push_back(std::make_unique<Split>(TextPattern(kGpt2Words), Behavior::kIsolated, false));
  }
}

void PreTokenizer::cut(std::string_view text, WordList& list) const {
  list.owned.clear();
  list.words.clear();
  if (!text.empty()) list.words.push_back(text);
  for (const auto& step : steps_) {
    list.spare.clear();
    for (const std::string_view word : list.words) step->cut(word, list);
    list.words.swap(list.spare);
  }
}

}  // namespace ballast
