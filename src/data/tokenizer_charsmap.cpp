// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_charsmap.h"

#include <utf8proc.h>

#include <cstring>

#include "data/tokenizer_utf8.h"

namespace ballast {
namespace {

constexpr size_t kLargestGrapheme = 5;

// Fields of a Darts-clone unit.
bool has_leaf(uint32_t unit) {
  return (unit >> 8 & 1) == 1;
}
uint32_t value_of(uint32_t unit) {
  return unit & 0x7FFFFFFF;
}
uint32_t label_of(uint32_t unit) {
  return unit & 0x800000FF;
}
uint32_t offset_of(uint32_t unit) {
  return unit >> 10 << ((unit & 0x200) >> 6);
}

}  // namespace

std::optional<Charsmap> Charsmap::read(std::string_view blob) {
  uint32_t trie_bytes = 0;
  if (blob.size() < sizeof(trie_bytes)) return std::nullopt;
  std::memcpy(&trie_bytes, blob.data(), sizeof(trie_bytes));
  blob.remove_prefix(sizeof(trie_bytes));
  if (trie_bytes > blob.size() || trie_bytes % 4 != 0 || trie_bytes == 0) return std::nullopt;
  Charsmap map;
  map.units_.resize(trie_bytes / 4);
  std::memcpy(map.units_.data(), blob.data(), trie_bytes);
  map.texts_ = blob.substr(trie_bytes);
  if (!map.is_sound()) return std::nullopt;
  for (size_t c = 0; c < map.changes_ascii_.size(); ++c) {
    const char character = static_cast<char>(c);
    map.changes_ascii_[c] = map.find(std::string_view(&character, 1)).has_value();
  }
  return map;
}

/// Whether every text is UTF-8 and the last one ends, and every walk through the trie stays in it and ends at a text.
bool Charsmap::is_sound() const {
  std::string storage;
  if (texts_.empty() || texts_.back() != '\0') return false;
  if (valid_utf8(texts_, storage).data() != texts_.data()) return false;
  const auto is_text = [this](size_t start) {
    return start < texts_.size() && (static_cast<unsigned char>(texts_[start]) & 0xC0) != 0x80;
  };
  std::vector<bool> is_seen(units_.size());
  std::vector<size_t> open = {offset_of(units_[0])};  // where the children of a node are, but for the label
  while (!open.empty()) {
    const size_t base = open.back();
    open.pop_back();
    for (size_t label = 1; label < 256; ++label) {
      const size_t place = base ^ label;
      if (place >= units_.size()) return false;
      if (label_of(units_[place]) != label || is_seen[place]) continue;
      is_seen[place] = true;
      const size_t below = place ^ offset_of(units_[place]);
      if (below >= units_.size() || (has_leaf(units_[place]) && !is_text(value_of(units_[below])))) return false;
      open.push_back(below);
    }
  }
  return true;
}

std::optional<std::string_view> Charsmap::find(std::string_view text) const {
  size_t place = offset_of(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    place ^= byte;
    if (byte == 0 || label_of(units_[place]) != byte) return std::nullopt;
    const uint32_t unit = units_[place];
    place ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    const std::string_view found = std::string_view(texts_).substr(value_of(units_[place]));
    return found.substr(0, found.find('\0'));
  }
  return std::nullopt;
}

void Charsmap::append_grapheme(std::string_view grapheme, std::string& out) const {
  if (grapheme.size() <= kLargestGrapheme) {
    if (const auto found = find(grapheme)) {
      out += *found;
      return;
    }
  }
  for (size_t bytes = 0; !grapheme.empty(); grapheme.remove_prefix(bytes)) {
    bytes = utf8_step(grapheme).bytes;
    const std::string_view character = grapheme.substr(0, bytes);
    out += find(character).value_or(character);
  }
}

void Charsmap::apply(std::string& text) const {
  std::string result;
  result.reserve(text.size() + text.size() / 8);
  const std::string_view all = text;
  size_t start = 0;
  while (start < all.size()) {
    // Two plain characters share a grapheme only if they are CR LF.
    const auto byte = static_cast<unsigned char>(all[start]);
    const bool is_alone =
        byte < 0x80 && byte != '\r' && (start + 1 == all.size() || static_cast<unsigned char>(all[start + 1]) < 0x80);
    if (is_alone && !changes_ascii_[byte]) {
      result += all[start++];
      continue;
    }
    size_t end = start + utf8_step(all.substr(start)).bytes;
    utf8proc_int32_t state = 0;
    char32_t last = first_code_point(all.substr(start));
    while (end < all.size()) {
      const char32_t next = first_code_point(all.substr(end));
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last), static_cast<utf8proc_int32_t>(next),
                                           &state)) {
        break;
      }
      end += utf8_step(all.substr(end)).bytes;
      last = next;
    }
    append_grapheme(all.substr(start, end - start), result);
    start = end;
  }
  text.swap(result);
}

}  // namespace ballast
