// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_tiktoken.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "data/base64.h"
#include "data/tokenizer_bpe.h"
#include "data/tokenizer_json_view.h"
#include "data/tokenizer_pattern.h"
#include "data/tokenizer_pipeline.h"
#include "files/file_error.h"

namespace ballast {
namespace {

constexpr const char* kLlama3Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr int32_t kLlama3Specials = 256;
constexpr int32_t kLargestId = std::numeric_limits<int32_t>::max() - 1;

std::optional<int32_t> parse_rank(std::string_view text) {
  int32_t rank = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error != std::errc() || rest != text.data() + text.size() || rank < 0 || rank > kLargestId) return std::nullopt;
  return rank;
}

struct Specials {
  std::string words = kLlama3Words;
  std::string where = "tokenizer";  ///< of `words`
  std::vector<std::pair<std::string, int32_t>> tokens;
  std::optional<int32_t> bos, eos, pad;
};

/// The names of Llama 3.1 and later, in the order of their ids.
Specials llama3_specials(int32_t first_id) {
  constexpr const char* kNamed[] = {"<|begin_of_text|>",
                                    "<|end_of_text|>",
                                    "<|reserved_special_token_0|>",
                                    "<|reserved_special_token_1|>",
                                    "<|finetune_right_pad_id|>",
                                    "<|step_id|>",
                                    "<|start_header_id|>",
                                    "<|end_header_id|>",
                                    "<|eom_id|>",
                                    "<|eot_id|>",
                                    "<|python_tag|>"};
  Specials specials;
  for (const char* name : kNamed) {
    specials.tokens.emplace_back(name, first_id + static_cast<int32_t>(specials.tokens.size()));
  }
  for (int32_t number = 2; specials.tokens.size() < kLlama3Specials; ++number) {
    specials.tokens.emplace_back("<|reserved_special_token_" + std::to_string(number) + "|>",
                                 first_id + static_cast<int32_t>(specials.tokens.size()));
  }
  specials.bos = first_id;
  specials.eos = first_id + 1;
  return specials;
}

Specials read_specials(const JsonView& root) {
  Specials specials;
  if (root.has("pat_str")) {
    specials.words = root.member_text("pat_str");
    specials.where = root.member("pat_str").where();
  }
  const JsonView tokens = root.member("special_tokens");
  if (!tokens.value().is_object()) tokens.fail("wrong type", tokens.value().type_name(), "an object of text: id");
  for (const auto& [text, id] : tokens.value().items()) specials.tokens.emplace_back(text, tokens.member(text).id());
  for (const auto& [key, role] : {std::pair{"bos", &specials.bos}, {"eos", &specials.eos}, {"pad", &specials.pad}}) {
    if (!root.has(key)) continue;
    if (!tokens.value().contains(root.member_text(key))) {
      root.member(key).fail("is no special token", root.member_text(key));
    }
    *role = tokens.member(root.member_text(key)).id();
  }
  return specials;
}

using Ranks = std::vector<std::pair<int32_t, std::string>>;

[[noreturn]] void fail_line(const std::string& file, int64_t number, const std::string& what, const std::string& got,
                            const std::string& need) {
  throw_file_error(ErrorKind::kData, file + ":" + std::to_string(number),
                   {what, got.size() > 60 ? got.substr(0, 60) + " ..." : got, need});
}

/// The lines of the file, sorted by rank; ranks and tokens come once each.
Ranks read_ranks(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw_system_error(ErrorKind::kData, file, "cannot be read", errno);
  Ranks ranks;
  std::unordered_set<std::string> tokens;
  int64_t line_number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++line_number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    const size_t space = std::min(line.find(' '), line.size());
    const std::optional<std::string> token = decode_base64(std::string_view(line).substr(0, space));
    if (!token || token->empty()) {
      fail_line(file, line_number, "the token is not base64", line.substr(0, space),
                "bytes in base64, a space, a rank");
    }
    const std::string rank_text = line.substr(std::min(space + 1, line.size()));
    const std::optional<int32_t> rank = parse_rank(rank_text);
    if (!rank) {
      fail_line(file, line_number, "not a rank", rank_text, "a number from 0 to " + std::to_string(kLargestId));
    }
    if (!tokens.insert(*token).second) {
      fail_line(file, line_number, "the token appears twice", line.substr(0, space), "");
    }
    ranks.emplace_back(*rank, *token);
  }
  std::sort(ranks.begin(), ranks.end());
  for (size_t i = 1; i < ranks.size(); ++i) {
    if (ranks[i].first != ranks[i - 1].first) continue;
    throw_file_error(ErrorKind::kData, file, {"a rank appears twice", std::to_string(ranks[i].first)});
  }
  if (ranks.empty()) throw_file_error(ErrorKind::kData, file, {"has no tokens"});
  return ranks;
}

/// Bytes of every id up to the largest rank; those of special tokens in between stay empty.
std::vector<std::string> tokens_by_id(const std::string& file, Ranks ranks, const Specials& specials) {
  std::unordered_map<int32_t, std::string> special_of_id;
  for (const auto& [text, id] : specials.tokens) special_of_id.emplace(id, text);
  std::vector<std::string> tokens;
  tokens.reserve(ranks.size());
  int num_bytes = 0;
  for (auto& [rank, token] : ranks) {
    for (; static_cast<int32_t>(tokens.size()) < rank; tokens.emplace_back()) {
      if (special_of_id.contains(static_cast<int32_t>(tokens.size()))) continue;
      throw_file_error(ErrorKind::kData, file,
                       {"a rank is missing", std::to_string(tokens.size()), "every rank up to the largest once",
                        "fetching the file again, or special_tokens.json beside it"});
    }
    if (const auto holder = special_of_id.find(rank); holder != special_of_id.end()) {
      throw_file_error(ErrorKind::kData, file,
                       {"a rank is the id of special token \"" + holder->second + "\" as well", std::to_string(rank)});
    }
    num_bytes += token.size() == 1;
    tokens.push_back(std::move(token));
  }
  if (num_bytes != 256) {
    throw_file_error(ErrorKind::kData, file,
                     {"not every byte is a token", std::to_string(num_bytes) + " single bytes", "256"});
  }
  return tokens;
}

AddedTokens added_tokens(const Specials& specials, const std::string& file, const TokenModel& model) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [text, id] : specials.tokens) list.push_back({{"content", text}, {"id", id}, {"special", true}});
  return AddedTokens(
      JsonView(list, file, "special_tokens"), Normalizer(), [](const std::string&) { return std::nullopt; },
      [&](int32_t id) { return model.token_of(id); });
}

}  // namespace

bool looks_like_tiktoken(std::string_view start) {
  std::string_view line = start.substr(0, start.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  const size_t space = line.find(' ');
  return space != std::string_view::npos && space > 0 && decode_base64(line.substr(0, space)) &&
         parse_rank(line.substr(space + 1));
}

std::unique_ptr<Tokenizer> read_tiktoken(const std::string& file) {
  Ranks ranks = read_ranks(file);
  const std::string special_file = (std::filesystem::path(file).parent_path() / "special_tokens.json").string();
  const bool has_specials = std::filesystem::exists(special_file);
  if (ranks.back().first > kLargestId - kLlama3Specials) {
    throw_file_error(ErrorKind::kData, file, {"a rank is too large", std::to_string(ranks.back().first)});
  }
  Specials specials;
  if (has_specials) {
    const nlohmann::json document = read_json_file(special_file);
    specials = read_specials(JsonView(document, special_file));
  } else {
    specials = llama3_specials(ranks.back().first + 1);
  }
  TokenizerParts parts;
  parts.type = "tiktoken";
  parts.model = std::make_unique<const BpeModel>(tokens_by_id(file, std::move(ranks), specials));
  parts.pre_tokenizer = PreTokenizer::isolating(TextPattern(Regex(specials.words, specials.where, RegexSyntax::kRust)));
  parts.added = added_tokens(specials, has_specials ? special_file : file, *parts.model);
  parts.decoder = TokenDecoder::byte_level();
  parts.bos = specials.bos;
  parts.eos = specials.eos;
  parts.pad = specials.pad;
  if (parts.bos) parts.around.before = {*parts.bos};
  return make_tokenizer(std::move(parts));
}

}  // namespace ballast
