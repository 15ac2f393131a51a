// SPDX-License-Identifier: Apache-2.0
// A map from byte strings to numbers that finds every key a text begins with in one walk.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace ballast {

/// A double-array trie: the child of node s for byte c stands at base(s) + c if its `parent` is s.
class ByteTrie {
 public:
  /// @param entries  keys and values >= 0; an empty key is left out, of equal keys the last entry stays
  explicit ByteTrie(std::vector<std::pair<std::string_view, int32_t>> entries);

  /// Calls `visit(size_t key_bytes, int32_t value)` for every key that `text` begins with, the shortest first.
  template <typename Visit>
  void visit_prefixes(std::string_view text, Visit&& visit) const {
    int32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
      if (node < 0) return;
      const int32_t value = nodes_[static_cast<size_t>(node)].value;
      if (value >= 0) visit(i + 1, value);
    }
  }

  /// Value of a whole key; -1 if there is none.
  int32_t find(std::string_view key) const;

 private:
  struct Node {
    int32_t base = 0;
    int32_t parent = -1;  ///< -1: free (and the root)
    int32_t value = -1;
  };
  int32_t child(int32_t node, unsigned char byte) const {
    const int32_t place = nodes_[static_cast<size_t>(node)].base + byte;
    return nodes_[static_cast<size_t>(place)].parent == node ? place : -1;
  }
  int32_t find_base(const std::vector<unsigned char>& bytes);

  std::vector<Node> nodes_;
  int32_t first_place_ = 1;  ///< before it hardly a place is free
};

}  // namespace ballast
