// SPDX-License-Identifier: Apache-2.0
// The `added_tokens` of tokenizer.json: texts that become one id before the model sees anything.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ballast {

class JsonView;
class Normalizer;

/// An entry of `added_tokens`.
struct AddedToken {
  std::string content;
  std::string form;  ///< what is looked for and decoded: content, put into normal form if `normalized`
  int32_t id = 0;
  bool single_word = false;  ///< counts only where no word character touches it
  bool lstrip = false;       ///< swallows the white space before it
  bool rstrip = false;       ///< swallows the white space after it
  bool normalized = false;   ///< looked for in the normalised text
  bool special = false;      ///< left out when a text is decoded without special tokens
};

/// Finds the leftmost-longest occurrences of a set of texts.
class TokenMatcher {
 public:
  struct Match {
    size_t begin;
    size_t end;
    int32_t token_index;
  };

  /// Of equal texts (two tokens with one normal form) the first stays. An empty text is never found.
  void add(std::string_view text, int32_t token_index);
  /// Leftmost match at or after `from`, the longest of those that start there.
  std::optional<Match> find(std::string_view text, size_t from) const;

 private:
  struct Node {
    int32_t token_index = -1;
    std::vector<std::pair<char, int32_t>> next;  ///< byte, node
  };
  int32_t child(int32_t node, char byte) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<bool, 256> starts_{};  ///< bytes some text starts with
};

/// A stretch of text, or the id of an added token in its place (then `text` is empty).
struct TextPiece {
  std::string_view text;
  std::optional<int32_t> id;
};

/// Cuts texts at added tokens, with the Hugging Face library's rules.
class AddedTokens {
 public:
  AddedTokens() = default;
  /// @param list         the array `added_tokens`
  /// @param normalizer   puts the texts of normalized tokens into the form they are looked for in
  /// @param model_id     the model vocabulary's id of a token, if it has it
  /// @param model_token  the model vocabulary's token of an id, if it has it
  /// @throws DataError for wrong types, an empty or repeated content, an id that belongs to another token
  AddedTokens(const JsonView& list, const Normalizer& normalizer,
              const std::function<std::optional<int32_t>(const std::string&)>& model_id,
              const std::function<const std::string*(int32_t)>& model_token);

  /// Pieces of `text` around the tokens that are (normalized) or are not (raw) to be sought in normalised text.
  std::vector<TextPiece> cut_raw(std::string_view text) const { return cut(text, raw_); }
  std::vector<TextPiece> cut_normalized(std::string_view text) const { return cut(text, normalized_); }

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  /// The token of an id or of an exact content; null if there is none.
  const AddedToken* find(int32_t id) const;
  const AddedToken* find(const std::string& content) const;

 private:
  void read(const JsonView& entry);
  std::vector<TextPiece> cut(std::string_view text, const TokenMatcher& matcher) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<int32_t, size_t> index_of_id_;
  std::unordered_map<std::string, size_t> index_of_content_;
  TokenMatcher raw_;
  TokenMatcher normalized_;
};

}  // namespace ballast
