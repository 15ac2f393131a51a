// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "data/tokenizer_byte_alphabet.h"
#include "data/tokenizer_json_view.h"
#include "data/tokenizer_utf8.h"
#include "errors/errors.h"

namespace ballast {
namespace {

constexpr double kUnknownPenalty = 10;

}  // namespace

UnigramModel::UnigramModel(const JsonView& model) : where_(model.where()) {
  read_vocab(model.member("vocab"));
  if (model.has("unk_id")) {
    const JsonView unknown = model.member("unk_id");
    unk_id_ = unknown.id();
    if (static_cast<size_t>(*unk_id_) >= pieces_.size()) {
      unknown.fail("is outside the vocabulary", std::to_string(*unk_id_),
                   "less than " + std::to_string(pieces_.size()));
    }
  }
  byte_fallback_ = model.boolean_or("byte_fallback", false);
  for (int byte = 0; byte < 256; ++byte) {
    id_of_byte_[static_cast<size_t>(byte)] = trie_->find(byte_token(static_cast<uint8_t>(byte)));
  }
}

void UnigramModel::read_vocab(const JsonView& vocab) {
  const size_t count = vocab.size();
  if (count > static_cast<size_t>(std::numeric_limits<int32_t>::max()) - 1) vocab.fail("has too many pieces");
  if (count == 0) vocab.fail("has no pieces");
  pieces_.reserve(count);
  scores_.reserve(count);
  double lowest = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < count; ++i) {
    const nlohmann::json& entry = vocab.value()[i];
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
      vocab.item(i).fail("not a piece", entry.dump(-1, ' ', true), "[\"piece\", score]");
    }
    pieces_.push_back(entry[0].get<std::string>());
    scores_.push_back(entry[1].get<double>());
    if (!std::isfinite(scores_.back())) vocab.item(i).fail("the score is not finite", entry[1].dump());
    lowest = std::min(lowest, scores_.back());
  }
  unk_score_ = lowest - kUnknownPenalty;
  std::vector<std::pair<std::string_view, int32_t>> entries;
  entries.reserve(count);
  for (size_t i = 0; i < count; ++i) entries.emplace_back(pieces_[i], static_cast<int32_t>(i));
  trie_ = std::make_unique<const ByteTrie>(std::move(entries));
}

std::optional<int32_t> UnigramModel::id_of(const std::string& token) const {
  const int32_t id = trie_->find(token);
  return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

const std::string* UnigramModel::token_of(int32_t id) const {
  return id < 0 || static_cast<size_t>(id) >= pieces_.size() ? nullptr : &pieces_[static_cast<size_t>(id)];
}

void UnigramModel::fail_unknown(std::string_view character) const {
  throw DataError({.where = where_,
                   .what = "a character of the text is in no piece, and there is no unk_id",
                   .got = std::string(character),
                   .need = {},
                   .attempt = "a tokenizer with an unknown token"});
}

void UnigramModel::find_best_paths(std::string_view word, std::vector<ModelScratch::BestPath>& paths) const {
  paths.assign(word.size() + 1, {.score = 0, .start = -1, .id = -1});
  const auto offer = [&](size_t end, double score, size_t start, int32_t id) {
    ModelScratch::BestPath& path = paths[end];
    if (path.start < 0 || score > path.score) path = {score, static_cast<int64_t>(start), id};
  };
  size_t character_bytes = 0;
  for (size_t start = 0; start < word.size(); start += character_bytes) {
    const std::string_view rest = word.substr(start);
    character_bytes = utf8_step(rest).bytes;
    const double score_here = paths[start].score;
    bool has_character = false;
    trie_->visit_prefixes(rest, [&](size_t bytes, int32_t id) {
      offer(start + bytes, scores_[static_cast<size_t>(id)] + score_here, start, id);
      has_character = has_character || bytes == character_bytes;
    });
    if (has_character) continue;
    const double score = unk_score_ + score_here;
    const ModelScratch::BestPath& path = paths[start + character_bytes];
    if (path.start >= 0 && score <= path.score) continue;
    if (!unk_id_) fail_unknown(rest.substr(0, character_bytes));
    offer(start + character_bytes, score, start, *unk_id_);
  }
}

/// Appends the ids of a run of unknown characters, the last one first.
void UnigramModel::add_reversed(std::string_view unknown, int32_t unknown_id, std::vector<int32_t>& ids) const {
  const int32_t whole = trie_->find(unknown);
  if (whole >= 0) return ids.push_back(whole);
  const auto has_token = [this](char byte) { return id_of_byte_[static_cast<unsigned char>(byte)] >= 0; };
  if (!byte_fallback_ || !std::all_of(unknown.begin(), unknown.end(), has_token)) return ids.push_back(unknown_id);
  for (size_t i = unknown.size(); i-- > 0;) ids.push_back(id_of_byte_[static_cast<unsigned char>(unknown[i])]);
}

void UnigramModel::encode_new(std::string_view word, ModelScratch& scratch, std::vector<int32_t>& ids) const {
  auto& paths = scratch.paths;
  find_best_paths(word, paths);
  const int32_t unknown_id = unk_id_.value_or(-1);  // which no path ends in
  const size_t before = ids.size();
  for (size_t end = word.size(); end > 0;) {
    size_t start = static_cast<size_t>(paths[end].start);
    if (paths[end].id != unknown_id) {
      ids.push_back(paths[end].id);
    } else {
      while (start > 0 && paths[start].id == unknown_id) start = static_cast<size_t>(paths[start].start);
      add_reversed(word.substr(start, end - start), unknown_id, ids);
    }
    end = start;
  }
  std::reverse(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end());
}

}  // namespace ballast
