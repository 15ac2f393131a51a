// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_bpe.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "data/tokenizer_byte_alphabet.h"
#include "data/tokenizer_json_view.h"
#include "errors/errors.h"

namespace ballast {
namespace {

uint64_t pair_key(int32_t left, int32_t right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

/// Options that would change the ids and that no byte-level model sets.
void refuse_options(const JsonView& model) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model.has(key) || model.member_text(key).empty()) continue;
    model.member(key).fail("is not supported for byte-level BPE", "\"" + model.member_text(key) + "\"", "null or \"\"");
  }
  if (model.boolean_or("byte_fallback", false)) {
    model.member("byte_fallback").fail("is not supported for byte-level BPE", "true", "false");
  }
  if (model.has("dropout") && model.member("dropout").value() != 0) {
    model.member("dropout").fail("merges cannot be dropped at random", model.member("dropout").value().dump(), "null");
  }
}

struct TokenPair {
  std::string left;
  std::string right;
};

TokenPair read_pair(const JsonView& merges, size_t index) {
  const nlohmann::json& entry = merges.value()[index];
  if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
    return {entry[0].get<std::string>(), entry[1].get<std::string>()};
  }
  if (entry.is_string()) {
    const auto& line = entry.get_ref<const std::string&>();
    const size_t space = line.find(' ');
    if (space != std::string::npos && line.find(' ', space + 1) == std::string::npos) {
      return {line.substr(0, space), line.substr(space + 1)};
    }
  }
  merges.item(index).fail("not a merge", entry.dump(-1, ' ', true), "\"left right\" or [\"left\", \"right\"]");
}

}  // namespace

BpeScratch::BpeScratch() : slots_(kSlots) {}

BpeScratch::Slot& BpeScratch::slot_of(std::string_view word) {
  return slots_[std::hash<std::string_view>()(word) & (kSlots - 1)];
}

BpeModel::BpeModel(const JsonView& model) {
  if (model.has("type") && model.type() != "BPE") model.fail_type("BPE (byte-level)");
  refuse_options(model);
  read_vocab(model.member("vocab"));
  read_merges(model.member("merges"));
  for (int byte = 0; byte < 256; ++byte) {
    id_of_byte_[static_cast<size_t>(byte)] = id_of(byte_character(static_cast<uint8_t>(byte))).value_or(-1);
  }
  if (model.has("unk_token")) {
    unk_id_ = id_of(model.member_text("unk_token"));
    if (!unk_id_) model.member("unk_token").fail("token is not in model.vocab", model.member_text("unk_token"));
  }
  fuse_unk_ = model.boolean_or("fuse_unk", false);
  ignore_merges_ = model.boolean_or("ignore_merges", false);
  if (!ignore_merges_) return;
  for (const auto& [token, id] : id_of_token_) {
    if (const std::optional<std::string> bytes = token_bytes(token)) id_of_word_.emplace(*bytes, id);
  }
}

void BpeModel::read_vocab(const JsonView& vocab) {
  if (!vocab.value().is_object()) vocab.fail("wrong type", vocab.value().type_name(), "an object of token: id");
  id_of_token_.reserve(vocab.value().size());
  token_of_id_.reserve(vocab.value().size());
  for (const auto& [token, value] : vocab.value().items()) {
    const std::optional<int32_t> good = JsonView::as_id(value);
    const int32_t id = good ? *good : vocab.member(token).id();  // which says what is wrong
    const auto entry = id_of_token_.emplace(token, id).first;
    const auto [holder, is_new] = token_of_id_.emplace(id, &entry->first);
    if (!is_new) {
      vocab.member(token).fail("id belongs to token \"" + *holder->second + "\" as well", std::to_string(id));
    }
    largest_id_ = std::max(largest_id_, id);
  }
}

void BpeModel::read_merges(const JsonView& merges) {
  const size_t count = merges.size();
  merges_.reserve(count);
  uint32_t rank = 0;
  for (size_t i = 0; i < count; ++i) {
    const nlohmann::json& entry = merges.value()[i];
    // The header line of merges.txt, which old converters carried over.
    if (entry.is_string() && entry.get_ref<const std::string&>().starts_with("#version")) continue;
    const TokenPair pair = read_pair(merges, i);
    int32_t ids[3];
    const std::string names[3] = {pair.left, pair.right, pair.left + pair.right};
    for (int k = 0; k < 3; ++k) {
      const std::optional<int32_t> id = id_of(names[k]);
      if (!id) merges.item(i).fail("token \"" + names[k] + "\" is not in model.vocab", pair.left + " + " + pair.right);
      ids[k] = *id;
    }
    merges_.insert_or_assign(pair_key(ids[0], ids[1]), Merge{rank++, ids[2]});
  }
}

std::optional<int32_t> BpeModel::id_of(const std::string& token) const {
  const auto found = id_of_token_.find(token);
  if (found == id_of_token_.end()) return std::nullopt;
  return found->second;
}

const std::string* BpeModel::token_of(int32_t id) const {
  const auto found = token_of_id_.find(id);
  return found == token_of_id_.end() ? nullptr : found->second;
}

void BpeModel::encode(std::string_view word, BpeScratch& scratch, std::vector<int32_t>& ids) const {
  if (word.empty()) return;
  if (word.size() > BpeScratch::kWordBytes) return merge(word, scratch, ids);
  BpeScratch::Slot& slot = scratch.slot_of(word);
  if (slot.word_bytes == word.size() && std::memcmp(slot.word.data(), word.data(), word.size()) == 0) {
    ids.insert(ids.end(), slot.ids.begin(), slot.ids.begin() + slot.num_ids);
    return;
  }
  const size_t before = ids.size();
  merge(word, scratch, ids);
  const size_t num_ids = ids.size() - before;
  if (num_ids > BpeScratch::kWordIds) return;
  slot.word_bytes = static_cast<uint8_t>(word.size());
  slot.num_ids = static_cast<uint8_t>(num_ids);
  std::copy(word.begin(), word.end(), slot.word.begin());
  std::copy(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end(), slot.ids.begin());
}

const BpeModel::Merge* BpeModel::find_merge(int32_t left, int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BpeModel::fill_symbols(std::string_view word, BpeScratch& scratch) const {
  auto& symbols = scratch.symbols_;
  symbols.clear();
  bool after_unknown = false;
  for (const char c : word) {
    int32_t id = id_of_byte_[static_cast<unsigned char>(c)];
    const bool is_unknown = id < 0;
    if (is_unknown) {
      if (!unk_id_ || (fuse_unk_ && after_unknown)) continue;
      id = *unk_id_;
    }
    after_unknown = is_unknown;
    const auto index = static_cast<int32_t>(symbols.size());
    symbols.push_back({.id = id, .previous = index - 1, .next = index + 1});
  }
  if (!symbols.empty()) symbols.back().next = -1;
}

/// Puts the pair that starts at symbol `left` on the heap if it has a rank.
void BpeModel::push_pair(int32_t left, BpeScratch& scratch) const {
  if (left < 0) return;
  const BpeScratch::Symbol& symbol = scratch.symbols_[static_cast<size_t>(left)];
  if (symbol.next < 0) return;
  const Merge* merge = find_merge(symbol.id, scratch.symbols_[static_cast<size_t>(symbol.next)].id);
  if (merge != nullptr) scratch.heap_.push_back({merge->rank, left, merge->merged_id});
}

void BpeModel::merge(std::string_view word, BpeScratch& scratch, std::vector<int32_t>& ids) const {
  if (ignore_merges_) {
    const auto whole = id_of_word_.find(std::string(word));
    if (whole != id_of_word_.end()) return ids.push_back(whole->second);
  }
  fill_symbols(word, scratch);
  auto& symbols = scratch.symbols_;
  auto& heap = scratch.heap_;
  // The heap's front is the lowest rank, the leftmost of equals.
  const auto is_later = [](const BpeScratch::Candidate& a, const BpeScratch::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.symbol_index > b.symbol_index;
  };
  const auto push = [&](int32_t left) {
    const size_t before = heap.size();
    push_pair(left, scratch);
    if (heap.size() > before) std::push_heap(heap.begin(), heap.end(), is_later);
  };
  heap.clear();
  for (size_t i = 0; i < symbols.size(); ++i) push_pair(static_cast<int32_t>(i), scratch);
  std::make_heap(heap.begin(), heap.end(), is_later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), is_later);
    const BpeScratch::Candidate best = heap.back();
    heap.pop_back();
    BpeScratch::Symbol& left = symbols[static_cast<size_t>(best.symbol_index)];
    if (left.id < 0 || left.next < 0) continue;
    BpeScratch::Symbol& right = symbols[static_cast<size_t>(left.next)];
    // An earlier merge may have changed the pair since it was put on the heap.
    const Merge* current = find_merge(left.id, right.id);
    if (current == nullptr || current->merged_id != best.merged_id) continue;
    left.id = best.merged_id;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = best.symbol_index;
    push(left.previous);
    push(best.symbol_index);
  }
  for (const BpeScratch::Symbol& symbol : symbols) {
    if (symbol.id >= 0) ids.push_back(symbol.id);
  }
}

}  // namespace ballast
