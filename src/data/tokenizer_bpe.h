// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding: the `model` of type BPE of tokenizer.json, and tiktoken's ranks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "data/tokenizer_model.h"
#include "data/tokenizer_pair_table.h"

namespace ballast {

class JsonView;

/// A word starts as the ids of its units; the pair of neighbours with the lowest rank (the leftmost of equals) is
/// merged until no pair has a rank. A unit without an id becomes its bytes' ids with byte_fallback, else the unknown
/// token (one for a run of them with fuse_unk); without an unknown token it is left out, as in the Hugging Face
/// library. With ignore_merges a word that is a token is taken whole.
class BpeModel : public TokenModel {
 public:
  /// What a word consists of before merging: bytes (byte-level vocabularies, written in the byte alphabet) or
  /// characters (SentencePiece's).
  enum class Units { kBytes, kCharacters };

  /// @param model  the member `model`; `merges` in either form, "a b" or ["a", "b"]
  /// @throws DataError naming the JSON path: wrong types, an id given twice, a merge of or to an unknown token, or an
  ///         option that changes the result (dropout, prefixes and suffixes, byte_fallback of byte-level vocabularies)
  BpeModel(const JsonView& model, Units units);

  /// tiktoken's rule: of all neighbours, the pair whose joined bytes have the lowest rank is merged; a word that is a
  /// token is taken whole. The rank is the id.
  /// @param tokens  bytes of each rank, all different, every single byte among them; an empty one is no token
  explicit BpeModel(const std::vector<std::string>& tokens);

  std::optional<int32_t> id_of(const std::string& token) const override;
  const std::string* token_of(int32_t id) const override;
  std::optional<int32_t> unk_id() const override { return unk_id_; }
  int32_t largest_id() const override { return largest_id_; }

 protected:
  /// Ends before a U+2581 that no merge joins to what stands before it.
  size_t part_size(std::string_view word) const override;
  /// Takes O(n log n) steps for n bytes.
  void encode_new(std::string_view word, ModelScratch& scratch, std::vector<int32_t>& ids) const override;

 private:
  void read_vocab(const JsonView& vocab);
  void read_merges(const JsonView& merges);
  void read_unknown(const JsonView& model);
  void find_cuts(const std::vector<std::array<int32_t, 2>>& pairs);
  void fill_byte_symbols(std::string_view word, ModelScratch& scratch) const;
  void fill_character_symbols(std::string_view word, ModelScratch& scratch) const;
  void push_pair(int32_t left, ModelScratch& scratch) const;
  void merge_symbols(ModelScratch& scratch) const;

  Units units_;
  std::unordered_map<std::string, int32_t> id_of_token_;
  std::unordered_map<int32_t, const std::string*> token_of_id_;
  std::unordered_map<std::string, int32_t> id_of_word_;  ///< bytes of a word; filled only for ignore_merges
  PairTable merges_;
  std::array<int32_t, 256> id_of_byte_{};              ///< units, or what byte_fallback gives; -1: none
  std::array<int32_t, 128> id_of_ascii_{};             ///< kCharacters: the commonest characters; -1: none
  bool can_cut_ = false;                               ///< kCharacters: U+2581 may begin a part
  std::unordered_set<char32_t> joins_following_mark_;  ///< characters some merge joins to a U+2581 after them
  std::optional<int32_t> unk_id_;
  bool fuse_unk_ = false;
  bool byte_fallback_ = false;
  bool ignore_merges_ = false;
  int32_t largest_id_ = -1;
};

}  // namespace ballast
