// SPDX-License-Identifier: Apache-2.0
// The `model` of type Unigram of tokenizer.json: the cut of a word with the highest sum of scores.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/byte_trie.h"
#include "data/tokenizer_model.h"

namespace ballast {

class JsonView;

/// Viterbi over the pieces of the vocabulary. A character that no piece covers alone costs the lowest score less 10.
/// A run of unknown characters becomes one unknown token, or with byte_fallback the tokens of its bytes.
/// @source huggingface/tokenizers models/unigram/model.rs, whose order of additions and comparisons decides ties
class UnigramModel : public TokenModel {
 public:
  /// @param model  the member `model`; the place of a piece in `vocab` is its id
  /// @throws DataError naming the JSON path: no pieces, wrong types, a score that is no finite number, unk_id outside
  /// the list
  explicit UnigramModel(const JsonView& model);

  std::optional<int32_t> id_of(const std::string& token) const override;
  const std::string* token_of(int32_t id) const override;
  std::optional<int32_t> unk_id() const override { return unk_id_; }
  int32_t largest_id() const override { return static_cast<int32_t>(pieces_.size()) - 1; }

 protected:
  /// Takes O(n l) steps for n bytes and pieces of up to l bytes.
  /// @throws DataError for an unknown character when there is no unk_id
  void encode_new(std::string_view word, ModelScratch& scratch, std::vector<int32_t>& ids) const override;

 private:
  void read_vocab(const JsonView& vocab);
  void find_best_paths(std::string_view word, std::vector<ModelScratch::BestPath>& paths) const;
  void add_reversed(std::string_view unknown, int32_t unknown_id, std::vector<int32_t>& ids) const;
  [[noreturn]] void fail_unknown(std::string_view character) const;

  std::string where_;
  std::vector<std::string> pieces_;
  std::vector<double> scores_;
  std::unique_ptr<const ByteTrie> trie_;
  std::optional<int32_t> unk_id_;
  double unk_score_ = 0;
  bool byte_fallback_ = false;
  std::array<int32_t, 256> id_of_byte_{};  ///< -1: none
};

}  // namespace ballast
