// SPDX-License-Identifier: Apache-2.0
// The merges of BPE: from a pair of ids to a rank and an id, in one flat table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast {

/// Open addressing with linear probing; at most half full.
class PairTable {
 public:
  struct Merge {
    uint32_t rank;
    int32_t merged_id;
  };

  void reserve(size_t num_pairs) {
    size_t size = 16;
    while (size < 2 * num_pairs) size *= 2;
    if (size > entries_.size()) rebuild(size);
  }

  /// A pair given twice keeps its last merge. Ids are not negative.
  void set(int32_t left, int32_t right, Merge merge) {
    if (2 * (count_ + 1) > entries_.size()) rebuild(entries_.empty() ? 16 : 2 * entries_.size());
    Entry& entry = entries_[place_of(key_of(left, right))];
    count_ += entry.key == kFree;
    entry = {key_of(left, right), merge};
  }

  const Merge* find(int32_t left, int32_t right) const {
    if (entries_.empty()) return nullptr;
    const Entry& entry = entries_[place_of(key_of(left, right))];
    return entry.key == kFree ? nullptr : &entry.merge;
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};  // no pair of ids
  struct Entry {
    uint64_t key = kFree;
    Merge merge{};
  };

  static uint64_t key_of(int32_t left, int32_t right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
  }
  /// Where the key stands, or the free place for it.
  size_t place_of(uint64_t key) const {
    const size_t mask = entries_.size() - 1;
    size_t place = static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> 32) & mask;
    while (entries_[place].key != key && entries_[place].key != kFree) place = (place + 1) & mask;
    return place;
  }
  void rebuild(size_t size) {
    std::vector<Entry> old(size);
    old.swap(entries_);
    for (const Entry& entry : old) {
      if (entry.key != kFree) entries_[place_of(entry.key)] = entry;
    }
  }

  std::vector<Entry> entries_;
  size_t count_ = 0;
};

}  // namespace ballast
