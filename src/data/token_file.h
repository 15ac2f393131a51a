// SPDX-License-Identifier: Apache-2.0
// Raw token files and the index beside them (docs/data_formats.md, "Token files").
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/atomic_file.h"

namespace ballast {

enum class TokenType { kUint16, kUint32 };

/// The narrower type that holds every id of a vocabulary.
TokenType token_type_for(int64_t vocab_size);
/// "uint16" or "uint32".
std::string_view token_type_name(TokenType type);

/// Writes ids as little-endian numbers without a header; the file appears whole at commit() or not at all.
class TokenFileWriter {
 public:
  /// @throws DataError when the folder is missing or not writable; all members throw DataError
  TokenFileWriter(std::filesystem::path path, TokenType type);
  /// @param ids  each one fits the type
  void append(std::span<const int32_t> ids);
  void commit();
  int64_t num_tokens() const { return num_tokens_; }

 private:
  void flush();

  AtomicFile file_;
  TokenType type_;
  int64_t num_tokens_ = 0;
  std::string buffer_;  // not yet in the file
};

/// What an index says about a set of token files.
struct TokenIndex {
  struct File {
    std::string path;
    std::string label;
    int64_t num_tokens = 0;
  };
  int64_t sequence_length = 0;  ///< tokens of an instance, >= 1
  TokenType type = TokenType::kUint32;
  std::string tokenizer;  ///< its name or path
  std::vector<File> files;
};

/// MaxText's form: instance i of a file is its tokens [i S, (i + 1) S); what is left at its end is none. The
/// fingerprint is SHA-256 over format version, S, type, tokenizer, and each file's path and number of tokens, as
/// decimal text, each followed by a zero byte.
nlohmann::ordered_json token_index_json(const TokenIndex& index);

}  // namespace ballast
