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
class TextPattern;

/// Words of one text, and the storage of those that are not part of it.
struct WordList {
  std::vector<std::string_view> words;
  std::vector<std::string_view> spare;  ///< the list the next step writes
  std::deque<std::string> owned;
  const char* text_start = nullptr;  ///< where the word at the very start of the document begins, if it is here
};

/// Cuts every word of a list. Safe to use from several threads at once.
class PreTokenizerStep {
 public:
  virtual ~PreTokenizerStep() = default;
  /// Appends the parts of `word` (not empty) to `list.spare`.
  virtual void cut(std::string_view word, WordList& list) const = 0;
};

/// The steps in order; without steps a text is one word. After ByteLevel, which must be the last step, the words hold
/// bytes; they are never written in the byte alphabet.
///
/// Supported: ByteLevel (add_prefix_space, use_regex with GPT-2's expression), Metaspace (all prepend schemes), Split
/// (String or Regex; Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous; invert), Digits, Punctuation,
/// Whitespace, WhitespaceSplit, CharDelimiterSplit, Sequence.
class PreTokenizer {
 public:
  PreTokenizer() = default;
  /// @throws DataError for any other component, or for ByteLevel before another step
  explicit PreTokenizer(const JsonView& description);
  /// Cuts bytes at the matches of one expression, which stay as words.
  static PreTokenizer isolating(TextPattern words);

  /// Whether the words are to be read as bytes.
  bool ends_in_bytes() const { return ends_in_bytes_; }

  /// Leaves the words of `text` (valid UTF-8, must outlive the list) in `list.words`, in order, none empty.
  /// @param is_start  `text` is the start of the document, where Metaspace's scheme "first" puts its mark
  void cut(std::string_view text, bool is_start, WordList& list) const;

 private:
  void add(const JsonView& description);
  void add_byte_level(const JsonView& description);

  std::vector<std::unique_ptr<const PreTokenizerStep>> steps_;
  bool ends_in_bytes_ = false;
};

}  // namespace ballast
