// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_added_tokens.h"

#include <algorithm>

#include "data/tokenizer_json_view.h"
#include "data/tokenizer_normalizer.h"
#include "data/tokenizer_utf8.h"

namespace ballast {
namespace {

size_t start_of_trailing_space(std::string_view text) {
  while (!text.empty()) {
    const std::string_view last = last_character(text);
    if (!is_white_space(first_code_point(last))) break;
    text.remove_suffix(last.size());
  }
  return text.size();
}

size_t leading_space_bytes(std::string_view text) {
  size_t bytes = 0;
  while (bytes < text.size() && is_white_space(first_code_point(text.substr(bytes)))) {
    bytes += utf8_step(text.substr(bytes)).bytes;
  }
  return bytes;
}

bool touches_word(std::string_view before, std::string_view after) {
  return (!before.empty() && is_word_character(first_code_point(last_character(before)))) ||
         (!after.empty() && is_word_character(first_code_point(after)));
}

}  // namespace

int32_t TokenMatcher::child(int32_t node, char byte) const {
  for (const auto& [edge, target] : nodes_[static_cast<size_t>(node)].next) {
    if (edge == byte) return target;
  }
  return -1;
}

void TokenMatcher::add(std::string_view text, int32_t token_index) {
  if (text.empty()) return;
  starts_[static_cast<unsigned char>(text[0])] = true;
  int32_t node = 0;
  for (const char byte : text) {
    int32_t next = child(node, byte);
    if (next < 0) {
      next = static_cast<int32_t>(nodes_.size());
      nodes_.emplace_back();
      nodes_[static_cast<size_t>(node)].next.emplace_back(byte, next);
    }
    node = next;
  }
  int32_t& index = nodes_[static_cast<size_t>(node)].token_index;
  if (index < 0) index = token_index;
}

std::optional<TokenMatcher::Match> TokenMatcher::find(std::string_view text, size_t from) const {
  if (nodes_.size() == 1) return std::nullopt;
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!starts_[static_cast<unsigned char>(text[begin])]) continue;
    std::optional<Match> longest;
    int32_t node = 0;
    for (size_t i = begin; i < text.size() && (node = child(node, text[i])) >= 0; ++i) {
      const int32_t index = nodes_[static_cast<size_t>(node)].token_index;
      if (index >= 0) longest = Match{begin, i + 1, index};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

AddedTokens::AddedTokens(const JsonView& list, const Normalizer& normalizer,
                         const std::function<std::optional<int32_t>(const std::string&)>& model_id,
                         const std::function<const std::string*(int32_t)>& model_token) {
  for (const JsonView& entry : list.items()) {
    read(entry);
    AddedToken& token = tokens_.back();
    token.form = token.content;
    if (token.normalized) normalizer.apply(token.form);
    const std::optional<int32_t> id = model_id(token.content);
    if (id && *id != token.id) {
      entry.member("id").fail("token \"" + token.content + "\" has another id in model.vocab", std::to_string(token.id),
                              std::to_string(*id));
    }
    const std::string* holder = model_token(token.id);
    if (holder != nullptr && *holder != token.content) {
      entry.member("id").fail("id belongs to token \"" + *holder + "\" of model.vocab", std::to_string(token.id));
    }
    (token.normalized ? normalized_ : raw_).add(token.form, static_cast<int32_t>(tokens_.size() - 1));
  }
}

void AddedTokens::read(const JsonView& entry) {
  AddedToken token;
  token.content = entry.member_text("content");
  token.id = entry.member("id").id();
  token.single_word = entry.boolean_or("single_word", false);
  token.lstrip = entry.boolean_or("lstrip", false);
  token.rstrip = entry.boolean_or("rstrip", false);
  token.special = entry.boolean_or("special", false);
  token.normalized = entry.boolean_or("normalized", !token.special);
  if (token.content.empty()) entry.member("content").fail("an added token has no text");
  if (!index_of_content_.emplace(token.content, tokens_.size()).second) {
    entry.member("content").fail("token appears twice", token.content);
  }
  if (!index_of_id_.emplace(token.id, tokens_.size()).second) {
    entry.member("id").fail("id belongs to added token \"" + find(token.id)->content + "\"", std::to_string(token.id));
  }
  tokens_.push_back(std::move(token));
}

const AddedToken* AddedTokens::find(int32_t id) const {
  const auto found = index_of_id_.find(id);
  return found == index_of_id_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::find(const std::string& content) const {
  const auto found = index_of_content_.find(content);
  return found == index_of_content_.end() ? nullptr : &tokens_[found->second];
}

std::vector<TextPiece> AddedTokens::cut(std::string_view text, const TokenMatcher& matcher) const {
  std::vector<TextPiece> pieces;
  size_t done = 0;
  size_t from = 0;
  while (const std::optional<TokenMatcher::Match> match = matcher.find(text, from)) {
    from = match->end;
    const AddedToken& token = tokens_[static_cast<size_t>(match->token_index)];
    if (token.single_word && touches_word(text.substr(0, match->begin), text.substr(match->end))) continue;
    // What an earlier rstrip swallowed is not swallowed again; a token that was swallowed whole is gone.
    const size_t begin =
        token.lstrip ? std::max(start_of_trailing_space(text.substr(0, match->begin)), done) : match->begin;
    const size_t end = token.rstrip ? match->end + leading_space_bytes(text.substr(match->end)) : match->end;
    if (begin >= end) continue;
    if (done < begin) pieces.push_back({text.substr(done, begin - done), std::nullopt});
    pieces.push_back({{}, token.id});
    done = end;
  }
  if (done < text.size()) pieces.push_back({text.substr(done), std::nullopt});
  return pieces;
}

}  // namespace ballast
