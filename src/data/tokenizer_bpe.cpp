// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_bpe.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "data/tokenizer_byte_alphabet.h"
#include "data/tokenizer_json_view.h"
#include "data/tokenizer_utf8.h"
#include "errors/errors.h"

namespace ballast {
namespace {

/// Options that would change the ids and that no model in use sets.
void refuse_options(const JsonView& model) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model.has(key) || model.member_text(key).empty()) continue;
    model.member(key).fail("is not supported", "\"" + model.member_text(key) + "\"", "null or \"\"");
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

BpeModel::BpeModel(const JsonView& model, Units units) : units_(units) {
  refuse_options(model);
  read_vocab(model.member("vocab"));
  read_merges(model.member("merges"));
  read_unknown(model);
  ignore_merges_ = model.boolean_or("ignore_merges", false);
  if (ignore_merges_) {
    can_cut_ = false;
    for (const auto& [token, id] : id_of_token_) {
      const std::optional<std::string> bytes = units == Units::kBytes ? token_bytes(token) : token;
      if (bytes) id_of_word_.emplace(*bytes, id);
    }
  }
}

BpeModel::BpeModel(const std::vector<std::string>& tokens) : units_(Units::kBytes), ignore_merges_(true) {
  for (size_t rank = 0; rank < tokens.size(); ++rank) {
    if (tokens[rank].empty()) continue;
    const auto id = static_cast<int32_t>(rank);
    id_of_word_.emplace(tokens[rank], id);
    std::string name;
    for (const char byte : tokens[rank]) name += byte_character(static_cast<uint8_t>(byte));
    token_of_id_.emplace(id, &id_of_token_.emplace(name, id).first->first);
    if (tokens[rank].size() == 1) id_of_byte_[static_cast<unsigned char>(tokens[rank][0])] = id;
    largest_id_ = id;
  }
  std::string part;
  const auto id_of_part = [&](std::string_view bytes) {
    const auto found = id_of_word_.find(part.assign(bytes));
    return found == id_of_word_.end() ? -1 : found->second;
  };
  for (const auto& [token, id] : id_of_word_) {
    for (size_t cut = 1; cut < token.size(); ++cut) {
      const int32_t left = id_of_part(std::string_view(token).substr(0, cut));
      const int32_t right = left < 0 ? -1 : id_of_part(std::string_view(token).substr(cut));
      if (right >= 0) merges_.set(left, right, {.rank = static_cast<uint32_t>(id), .merged_id = id});
    }
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
  std::vector<std::array<int32_t, 2>> pairs;
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
    merges_.set(ids[0], ids[1], {.rank = rank++, .merged_id = ids[2]});
    if (pair.right.starts_with(kSpaceMark)) pairs.push_back({ids[0], ids[1]});
  }
  if (units_ == Units::kCharacters) find_cuts(pairs);
}

void BpeModel::read_unknown(const JsonView& model) {
  if (model.has("unk_token")) {
    unk_id_ = id_of(model.member_text("unk_token"));
    if (!unk_id_) model.member("unk_token").fail("token is not in model.vocab", model.member_text("unk_token"));
  }
  fuse_unk_ = model.boolean_or("fuse_unk", false);
  byte_fallback_ = model.boolean_or("byte_fallback", false);
  bool has_all = true;
  for (int byte = 0; byte < 256; ++byte) {
    const auto value = static_cast<uint8_t>(byte);
    const std::string name = units_ == Units::kBytes ? byte_character(value) : byte_token(value);
    id_of_byte_[value] = id_of(name).value_or(-1);
    has_all = has_all && id_of_byte_[value] >= 0;
    if (byte < 128) id_of_ascii_[value] = id_of(std::string(1, static_cast<char>(byte))).value_or(-1);
  }
  if (units_ == Units::kBytes && byte_fallback_ && !has_all) {
    model.member("byte_fallback")
        .fail("is not supported for a byte-level vocabulary that lacks bytes", "true", "false");
  }
}

/// @param pairs  the merges whose right token begins with the mark
void BpeModel::find_cuts(const std::vector<std::array<int32_t, 2>>& pairs) {
  can_cut_ = id_of_token_.contains(std::string(kSpaceMark));
  for (const auto& [left, right] : pairs) {
    const std::string& text = *token_of(left);
    // A byte's token does not end in the character that its text ends in.
    if (text.empty() || byte_of_token(text)) {
      can_cut_ = false;
    } else {
      joins_following_mark_.insert(first_code_point(last_character(text)));
    }
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

size_t BpeModel::part_size(std::string_view word) const {
  if (!can_cut_) return word.size();
  for (size_t mark = word.find(kSpaceMark, 1); mark != std::string_view::npos; mark = word.find(kSpaceMark, mark + 1)) {
    if (!joins_following_mark_.contains(first_code_point(last_character(word.substr(0, mark))))) return mark;
  }
  return word.size();
}

void BpeModel::fill_byte_symbols(std::string_view word, ModelScratch& scratch) const {
  auto& symbols = scratch.symbols;
  bool after_unknown = false;
  for (const char c : word) {
    int32_t id = id_of_byte_[static_cast<unsigned char>(c)];
    const bool is_unknown = id < 0;
    if (is_unknown) {
      if (!unk_id_ || (fuse_unk_ && after_unknown)) continue;
      id = *unk_id_;
    }
    after_unknown = is_unknown;
    symbols.push_back({.id = id, .previous = 0, .next = 0});
  }
}

void BpeModel::fill_character_symbols(std::string_view word, ModelScratch& scratch) const {
  auto& symbols = scratch.symbols;
  const auto add = [&](int32_t id) { symbols.push_back({.id = id, .previous = 0, .next = 0}); };
  std::string character;
  const int32_t unknown = unk_id_.value_or(-1);
  // An unknown token waits for the next known character; byte tokens overtake it, as in the Hugging Face library.
  bool unknown_waits = false;
  for (std::string_view rest = word; !rest.empty(); rest.remove_prefix(character.size())) {
    character.assign(rest.substr(0, utf8_step(rest).bytes));
    const auto lead = static_cast<unsigned char>(character[0]);
    const int32_t id = lead < 128 ? id_of_ascii_[lead] : id_of(character).value_or(-1);
    if (id >= 0) {
      if (unknown_waits) add(unknown);
      unknown_waits = false;
      add(id);
      continue;
    }
    const auto has_token = [this](char byte) { return id_of_byte_[static_cast<unsigned char>(byte)] >= 0; };
    if (byte_fallback_ && std::all_of(character.begin(), character.end(), has_token)) {
      for (const char byte : character) add(id_of_byte_[static_cast<unsigned char>(byte)]);
    } else if (unknown >= 0) {
      if (unknown_waits && !fuse_unk_) add(unknown);
      unknown_waits = true;
    }
  }
  if (unknown_waits) add(unknown);
}

/// Puts the pair that starts at symbol `left` on the heap if it has a rank.
void BpeModel::push_pair(int32_t left, ModelScratch& scratch) const {
  if (left < 0) return;
  const ModelScratch::Symbol& symbol = scratch.symbols[static_cast<size_t>(left)];
  if (symbol.next < 0) return;
  const PairTable::Merge* merge = merges_.find(symbol.id, scratch.symbols[static_cast<size_t>(symbol.next)].id);
  if (merge != nullptr) scratch.heap.push_back({merge->rank, left, merge->merged_id});
}

void BpeModel::merge_symbols(ModelScratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  // The heap's front is the lowest rank, the leftmost of equals.
  const auto is_later = [](const ModelScratch::Candidate& a, const ModelScratch::Candidate& b) {
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
    const ModelScratch::Candidate best = heap.back();
    heap.pop_back();
    ModelScratch::Symbol& left = symbols[static_cast<size_t>(best.symbol_index)];
    if (left.id < 0 || left.next < 0) continue;
    ModelScratch::Symbol& right = symbols[static_cast<size_t>(left.next)];
    // An earlier merge may have changed the pair since it was put on the heap.
    const PairTable::Merge* current = merges_.find(left.id, right.id);
    if (current == nullptr || current->merged_id != best.merged_id) continue;
    left.id = best.merged_id;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = best.symbol_index;
    push(left.previous);
    push(best.symbol_index);
  }
}

void BpeModel::encode_new(std::string_view word, ModelScratch& scratch, std::vector<int32_t>& ids) const {
  if (ignore_merges_) {
    const auto whole = id_of_word_.find(std::string(word));
    if (whole != id_of_word_.end()) return ids.push_back(whole->second);
  }
  auto& symbols = scratch.symbols;
  symbols.clear();
  if (units_ == Units::kBytes) {
    fill_byte_symbols(word, scratch);
  } else {
    fill_character_symbols(word, scratch);
  }
  for (size_t i = 0; i < symbols.size(); ++i) {
    symbols[i].previous = static_cast<int32_t>(i) - 1;
    symbols[i].next = i + 1 < symbols.size() ? static_cast<int32_t>(i) + 1 : -1;
  }
  merge_symbols(scratch);
  for (const ModelScratch::Symbol& symbol : symbols) {
    if (symbol.id >= 0) ids.push_back(symbol.id);
  }
}

}  // namespace ballast
