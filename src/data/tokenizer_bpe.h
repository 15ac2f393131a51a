// SPDX-License-Identifier: Apache-2.0
// The `model` of type BPE of tokenizer.json, for words of bytes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ballast {

class JsonView;

/// What one thread at a time needs for encoding: buffers, and a table of the words it met last. About 4 MB.
class BpeScratch {
 public:
  BpeScratch();

 private:
  friend class BpeModel;

  /// Short words are by far the most; long ones are merged anew each time.
  static constexpr size_t kSlots = size_t{1} << 16;
  static constexpr size_t kWordBytes = 30;
  static constexpr size_t kWordIds = 8;
  struct Slot {
    uint8_t word_bytes = 0;  ///< 0: free
    uint8_t num_ids = 0;
    std::array<char, kWordBytes> word{};
    std::array<int32_t, kWordIds> ids{};
  };
  /// A part of the word; parts form a doubly linked list by index, -1 at the ends.
  struct Symbol {
    int32_t id;  ///< -1: merged into its left neighbour
    int32_t previous;
    int32_t next;
  };
  struct Candidate {
    uint32_t rank;
    int32_t symbol_index;  ///< the left one of the pair
    int32_t merged_id;
  };
  Slot& slot_of(std::string_view word);

  std::vector<Slot> slots_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

/// Byte-level BPE: a word starts as the ids of its bytes; the pair of neighbours with the lowest rank (the leftmost of
/// equals) is merged until no pair has a rank. A byte without an id becomes the unknown token (one for a run of them
/// with fuse_unk); without an unknown token it is left out, as in the Hugging Face library. With ignore_merges a word
/// that is a token is taken whole.
class BpeModel {
 public:
  /// @param model  the member `model`; `merges` in either form, "a b" or ["a", "b"]
  /// @throws DataError naming the JSON path: another model type, wrong types, an id given twice, a merge of or to an
  ///         unknown token, or an option that changes the result (dropout, byte_fallback, prefixes and suffixes)
  explicit BpeModel(const JsonView& model);

  /// Appends the ids of `word`, any bytes. Takes O(n log n) steps for n bytes.
  void encode(std::string_view word, BpeScratch& scratch, std::vector<int32_t>& ids) const;

  std::optional<int32_t> id_of(const std::string& token) const;
  /// Token of an id, as the vocabulary writes it; null if there is none.
  const std::string* token_of(int32_t id) const;
  const std::optional<int32_t>& unk_id() const { return unk_id_; }
  int32_t largest_id() const { return largest_id_; }

 private:
  struct Merge {
    uint32_t rank;
    int32_t merged_id;
  };
  void read_vocab(const JsonView& vocab);
  void read_merges(const JsonView& merges);
  void merge(std::string_view word, BpeScratch& scratch, std::vector<int32_t>& ids) const;
  void fill_symbols(std::string_view word, BpeScratch& scratch) const;
  void push_pair(int32_t left, BpeScratch& scratch) const;
  const Merge* find_merge(int32_t left, int32_t right) const;

  std::unordered_map<std::string, int32_t> id_of_token_;
  std::unordered_map<int32_t, const std::string*> token_of_id_;
  std::unordered_map<std::string, int32_t> id_of_word_;  ///< by bytes; filled only for ignore_merges
  std::unordered_map<uint64_t, Merge> merges_;           ///< by left id * 2^32 + right id
  std::array<int32_t, 256> id_of_byte_{};                ///< -1: none
  std::optional<int32_t> unk_id_;
  bool fuse_unk_ = false;
  bool ignore_merges_ = false;
  int32_t largest_id_ = -1;
};

}  // namespace ballast
