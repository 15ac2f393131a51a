// SPDX-License-Identifier: Apache-2.0
#include "data/token_file.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "errors/errors.h"
#include "files/sha256.h"

namespace ballast {
namespace {

constexpr const char* kFormatVersion = "1";
constexpr size_t kBufferBytes = size_t{1} << 20;

template <typename Number>
void append_numbers(std::span<const int32_t> ids, std::string& bytes) {
  const size_t before = bytes.size();
  bytes.resize(before + ids.size() * sizeof(Number));
  char* out = bytes.data() + before;
  for (const int32_t id : ids) {
    const auto number = static_cast<Number>(id);
    std::memcpy(out, &number, sizeof(number));
    out += sizeof(number);
  }
}

}  // namespace

TokenType token_type_for(int64_t vocab_size) {
  return vocab_size <= int64_t{1} << 16 ? TokenType::kUint16 : TokenType::kUint32;
}

std::string_view token_type_name(TokenType type) {
  return type == TokenType::kUint16 ? "uint16" : "uint32";
}

TokenFileWriter::TokenFileWriter(std::filesystem::path path, TokenType type)
    : file_(std::move(path), ErrorKind::kData), type_(type) {}

void TokenFileWriter::append(std::span<const int32_t> ids) {
  if (type_ == TokenType::kUint16) {
    append_numbers<uint16_t>(ids, buffer_);
  } else {
    append_numbers<uint32_t>(ids, buffer_);
  }
  num_tokens_ += static_cast<int64_t>(ids.size());
  if (buffer_.size() >= kBufferBytes) flush();
}

void TokenFileWriter::flush() {
  file_.append(buffer_);
  buffer_.clear();
}

void TokenFileWriter::commit() {
  flush();
  file_.commit();
}

nlohmann::ordered_json token_index_json(const TokenIndex& index) {
  const auto type = std::string(token_type_name(index.type));
  std::string print;
  const auto absorb = [&](const std::string& text) { print.append(text).push_back('\0'); };
  for (const std::string& text : {std::string(kFormatVersion), std::to_string(index.sequence_length), type}) {
    absorb(text);
  }
  absorb(index.tokenizer);
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  int64_t num_tokens = 0, num_instances = 0;
  for (const TokenIndex::File& file : index.files) {
    const int64_t instances = file.num_tokens / index.sequence_length;
    files.push_back({{"path", file.path},
                     {"label", file.label},
                     {"n_tokens", file.num_tokens},
                     {"n_instances", instances},
                     {"instance_offset", num_instances}});
    absorb(file.path);
    absorb(std::to_string(file.num_tokens));
    num_tokens += file.num_tokens;
    num_instances += instances;
  }
  return {{"format_version", kFormatVersion},
          {"sequence_length", index.sequence_length},
          {"dtype", type},
          {"tokenizer", index.tokenizer},
          {"total_instances", num_instances},
          {"total_tokens", num_tokens},
          {"fingerprint", "sha256:" + sha256_hex(print)},
          {"files", files}};
}

}  // namespace ballast
