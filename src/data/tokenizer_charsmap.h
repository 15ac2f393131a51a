// SPDX-License-Identifier: Apache-2.0
// SentencePiece's compiled character map: which characters a text's normal form has in place of others.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ballast {

/// A blob of: uint32 size of the trie in bytes (little-endian); the trie, an array of 32-bit units in the form of the
/// Darts-clone library; texts that each end in a zero byte. The trie maps a text to the place of another one.
/// @source google/sentencepiece src/normalizer.cc; rust-spm_precompiled; s-yata/darts-clone (unit layout)
class Charsmap {
 public:
  /// @return empty when `blob` has not this form: cut off, sizes that do not fit, a transition or a place outside
  static std::optional<Charsmap> read(std::string_view blob);

  /// Replaces each grapheme of less than 6 bytes, else each character, by what the shortest key it begins with stands
  /// for, as the Hugging Face library's Precompiled does.
  /// @param text  valid UTF-8
  void apply(std::string& text) const;

 private:
  Charsmap() = default;
  bool is_sound() const;
  /// What the shortest key that `text` begins with stands for.
  std::optional<std::string_view> find(std::string_view text) const;
  void append_grapheme(std::string_view grapheme, std::string& out) const;

  std::vector<uint32_t> units_;
  std::string texts_;
  std::array<bool, 128> changes_ascii_{};  ///< single characters that are keys
};

}  // namespace ballast
