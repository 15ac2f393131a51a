// SPDX-License-Identifier: Apache-2.0
// The `pre_tokenizer` of tokenizer.json: cuts a text into the words that the model encodes one by one.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ballast {

class JsonView;

/// Words of one text, and the storage of those that are not part of it.
struct WordList {
  std::vector<std::string_view> words;
  std::vector<std::string_view> spare;  ///< the list the next step writes
  std::deque<std::string> owned;
};

/// Cuts every word of a list. Safe to use from several threads at once.
class PreTokenizerStep {
 public:
  virtual ~PreTokenizerStep() = default;
  /// Appends the parts of `word` (not empty) to `list.spare`.
  virtual void cut(std::string_view word, WordList& list) const = 0;
};

/// The steps in order, for byte-level models: the last step must be ByteLevel, and the words hold bytes; they are
/// never written in the byte alphabet.
///
/// Supported: ByteLevel (add_prefix_space, use_regex with GPT-2's expression), Split (String or Regex; Removed,
/// Isolated, MergedWithPrevious, MergedWithNext, Contiguous; invert), Digits, Sequence.
class PreTokenizer {
 public:
  /// @throws DataError for any other component, for ByteLevel before another step, or when there is no ByteLevel
  explicit PreTokenizer(const JsonView& description);

  /// Leaves the words of `text` (valid UTF-8, must outlive the list) in `list.words`, in order, none empty.
  void cut(std::string_view text, WordList& list) const;

 private:
  void add(const JsonView& description);
  void add_byte_level(const JsonView& description);

  std::vector<std::unique_ptr<const PreTokenizerStep>> steps_;
  bool ends_in_bytes_ = false;
};

}  // namespace ballast
