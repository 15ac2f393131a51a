// SPDX-License-Identifier: Apache-2.0
#include "data/byte_trie.h"

#include <algorithm>

namespace ballast {

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, int32_t>> entries) : nodes_(257) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  struct Range {  // of the entries below a node, all longer than `depth` or ending there
    size_t begin;
    size_t end;
    size_t depth;
    int32_t node;
  };
  std::vector<Range> open = {{0, entries.size(), 0, 0}};
  std::vector<unsigned char> bytes;
  std::vector<size_t> starts;
  while (!open.empty()) {
    Range range = open.back();
    open.pop_back();
    for (; range.begin < range.end && entries[range.begin].first.size() == range.depth; ++range.begin) {
      if (range.depth > 0) nodes_[static_cast<size_t>(range.node)].value = entries[range.begin].second;
    }
    if (range.begin == range.end) continue;
    bytes.clear();
    starts.clear();
    for (size_t i = range.begin; i < range.end; ++i) {
      const auto byte = static_cast<unsigned char>(entries[i].first[range.depth]);
      if (!bytes.empty() && bytes.back() == byte) continue;
      bytes.push_back(byte);
      starts.push_back(i);
    }
    starts.push_back(range.end);
    const int32_t base = find_base(bytes);
    nodes_[static_cast<size_t>(range.node)].base = base;
    for (size_t k = 0; k < bytes.size(); ++k) {
      const int32_t place = base + bytes[k];
      nodes_[static_cast<size_t>(place)].parent = range.node;
      open.push_back({starts[k], starts[k + 1], range.depth + 1, place});
    }
  }
}

/// The smallest base, from where places are free, that puts all of `bytes` on free places. The array is longer than
/// every base by 256, so that a walk needs no bounds check.
int32_t ByteTrie::find_base(const std::vector<unsigned char>& bytes) {
  const auto is_free = [this](int32_t place) {
    return static_cast<size_t>(place) >= nodes_.size() || (place > 0 && nodes_[static_cast<size_t>(place)].parent < 0);
  };
  int32_t num_taken = 0;
  int32_t place = std::max(first_place_, static_cast<int32_t>(bytes[0]) + 1);
  const int32_t first = place;
  for (;; ++place) {
    if (!is_free(place)) {
      ++num_taken;
      continue;
    }
    const int32_t base = place - bytes[0];
    if (!std::all_of(bytes.begin(), bytes.end(), [&](unsigned char byte) { return is_free(base + byte); })) continue;
    if (place - first > 64 && num_taken > (place - first) / 20 * 19) first_place_ = place;
    const size_t needed = static_cast<size_t>(base) + 257;
    if (nodes_.size() < needed) nodes_.resize(std::max(needed, nodes_.size() + nodes_.size() / 2));
    return base;
  }
}

int32_t ByteTrie::find(std::string_view key) const {
  int32_t node = 0;
  for (const char c : key) {
    node = child(node, static_cast<unsigned char>(c));
    if (node < 0) return -1;
  }
  return node == 0 ? -1 : nodes_[static_cast<size_t>(node)].value;
}

}  // namespace ballast
