// SPDX-License-Identifier: Apache-2.0
// A small tokenizer.json, small enough to work out its ids by hand.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizer.h"
#include "data/tokenizer_byte_alphabet.h"
#include "errors/errors.h"
#include "files/temp_folder.h"

namespace ballast {

using Ids = std::vector<int32_t>;

inline nlohmann::json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

inline nlohmann::json regex_split(const std::string& expression, const std::string& behavior, bool invert = false) {
  return {{"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", behavior}, {"invert", invert}};
}

inline nlohmann::json in_sequence(const std::string& list_name, nlohmann::json steps) {
  return {{"type", "Sequence"}, {list_name, std::move(steps)}};
}

/// An entry of added_tokens that is neither special nor normalized; `changes` are members to set.
inline nlohmann::json added_token(int32_t id, const std::string& content, const nlohmann::json& changes = {}) {
  nlohmann::json token = {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                          {"rstrip", false}, {"normalized", false}, {"special", false}};
  if (!changes.is_null()) token.update(changes);
  return token;
}

/// Byte b has id b; then the merges in order: 256 "ab", 257 "bc", 258 "abc" = ab + c, 259 "aa", 260 "aaaa" = aa + aa.
/// One word a text, nothing added, no added tokens.
inline nlohmann::json small_tokenizer() {
  nlohmann::json vocab = {{"ab", 256}, {"bc", 257}, {"abc", 258}, {"aa", 259}, {"aaaa", 260}};
  for (int byte = 0; byte < 256; ++byte) vocab[byte_character(static_cast<uint8_t>(byte))] = byte;
  const nlohmann::json model = {{"type", "BPE"},        {"dropout", nullptr},
                                {"unk_token", nullptr}, {"ignore_merges", false},
                                {"vocab", vocab},       {"merges", {"a b", "b c", "ab c", "a a", "aa aa"}}};
  return {{"version", "1.0"},
          {"added_tokens", nlohmann::json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level(false)},
          {"post_processor", nullptr},
          {"decoder", byte_level(true)},
          {"model", model}};
}

/// Loads a description by way of a file.
inline std::unique_ptr<Tokenizer> load(const nlohmann::json& description) {
  const TempFolder folder;
  return load_tokenizer(folder.write("tokenizer.json", description.dump()).string());
}

/// The ids of bytes, for what no merge touches.
inline Ids byte_ids(const std::string& text) {
  Ids ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

}  // namespace ballast
