// SPDX-License-Identifier: Apache-2.0
// What turns a word into ids: the `model` of a tokenizer, behind one interface, and the buffers it works with.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ballast {

/// Ids of the words met last. Short words are by far the most; long ones are not kept. About 4 MB.
class WordCache {
 public:
  static constexpr size_t kWordBytes = 30;
  static constexpr size_t kWordIds = 8;

  WordCache() : slots_(kSlots) {}

  /// Appends the ids of `word` if it is known.
  bool find(std::string_view word, std::vector<int32_t>& ids) const {
    const Slot& slot = slots_[slot_index(word)];
    if (slot.word_bytes != word.size() || std::memcmp(slot.word.data(), word.data(), word.size()) != 0) return false;
    ids.insert(ids.end(), slot.ids.begin(), slot.ids.begin() + slot.num_ids);
    return true;
  }

  /// @param word  of 1 to kWordBytes bytes
  void keep(std::string_view word, std::span<const int32_t> ids) {
    if (ids.size() > kWordIds) return;
    Slot& slot = slots_[slot_index(word)];
    slot.word_bytes = static_cast<uint8_t>(word.size());
    slot.num_ids = static_cast<uint8_t>(ids.size());
    std::copy(word.begin(), word.end(), slot.word.begin());
    std::copy(ids.begin(), ids.end(), slot.ids.begin());
  }

 private:
  static constexpr size_t kSlots = size_t{1} << 16;
  struct Slot {
    uint8_t word_bytes = 0;  ///< 0: free
    uint8_t num_ids = 0;
    std::array<char, kWordBytes> word{};
    std::array<int32_t, kWordIds> ids{};
  };
  static size_t slot_index(std::string_view word) { return std::hash<std::string_view>()(word) & (kSlots - 1); }

  std::vector<Slot> slots_;
};

/// What one thread at a time needs for encoding.
struct ModelScratch {
  /// BPE: a part of the word; parts form a doubly linked list by index, -1 at the ends.
  struct Symbol {
    int32_t id;  ///< -1: merged into its left neighbour
    int32_t previous;
    int32_t next;
  };
  /// BPE: a pair of neighbours that can be merged.
  struct Candidate {
    uint32_t rank;
    int32_t symbol_index;  ///< the left one of the pair
    int32_t merged_id;
  };
  /// Unigram: the best way to cut the word up to a byte.
  struct BestPath {
    double score;
    int64_t start;  ///< of the last piece; -1: no way yet
    int32_t id;     ///< of the last piece
  };

  WordCache cache;
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  std::vector<BestPath> paths;
};

/// Immutable once built; safe to use from several threads at once, each with its own scratch.
class TokenModel {
 public:
  virtual ~TokenModel() = default;

  /// Appends the ids of `word`, which is not empty.
  void encode(std::string_view word, ModelScratch& scratch, std::vector<int32_t>& ids) const {
    while (!word.empty()) {
      const size_t part_bytes = part_size(word);
      encode_part(word.substr(0, part_bytes), scratch, ids);
      word.remove_prefix(part_bytes);
    }
  }

  virtual std::optional<int32_t> id_of(const std::string& token) const = 0;
  /// Token of an id, as the vocabulary writes it; null if there is none.
  virtual const std::string* token_of(int32_t id) const = 0;
  virtual std::optional<int32_t> unk_id() const = 0;
  virtual int32_t largest_id() const = 0;

 protected:
  /// Bytes at the front of `word` whose ids do not depend on what follows, at least 1.
  virtual size_t part_size(std::string_view word) const { return word.size(); }
  virtual void encode_new(std::string_view part, ModelScratch& scratch, std::vector<int32_t>& ids) const = 0;

 private:
  void encode_part(std::string_view part, ModelScratch& scratch, std::vector<int32_t>& ids) const {
    if (part.size() > WordCache::kWordBytes) return encode_new(part, scratch, ids);
    if (scratch.cache.find(part, ids)) return;
    const size_t before = ids.size();
    encode_new(part, scratch, ids);
    scratch.cache.keep(part, std::span(ids).subspan(before));
  }
};

}  // namespace ballast
