// SPDX-License-Identifier: Apache-2.0
// A reader of TensorBoard event files that shares no code with the writer: frames, check values, wire format.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "metrics/temporary_folder.h"

namespace ballast {

/// CRC-32C bit by bit, straight from the definition.
inline uint32_t slow_crc32c(const std::string& bytes) {
  uint32_t crc = ~0u;
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? (crc >> 1) ^ 0x82F63B78u : crc >> 1;
  }
  return ~crc;
}

/// One protocol buffer message: the raw payload of every occurrence of every field.
class WireMessage {
 public:
  explicit WireMessage(const std::string& bytes) {
    size_t at = 0;
    while (at < bytes.size()) {
      const uint64_t key = varint(bytes, at);
      size_t size = 0;
      switch (key & 7) {
        case 0:
          numbers_[key >> 3].push_back(varint(bytes, at));
          continue;
        case 1:
          size = 8;
          break;
        case 2:
          size = varint(bytes, at);
          break;
        case 5:
          size = 4;
          break;
        default:
          throw std::runtime_error("wire type");
      }
      if (at + size > bytes.size()) throw std::runtime_error("field runs past its message");
      payloads_[key >> 3].push_back(bytes.substr(at, size));
      at += size;
    }
  }
  bool has(uint64_t field) const { return numbers_.count(field) || payloads_.count(field); }
  uint64_t number(uint64_t field) const { return numbers_.at(field).at(0); }
  std::string bytes(uint64_t field) const { return payloads_.at(field).at(0); }
  std::vector<std::string> all(uint64_t field) const {
    const auto found = payloads_.find(field);
    return found == payloads_.end() ? std::vector<std::string>{} : found->second;
  }
  WireMessage message(uint64_t field) const { return WireMessage(bytes(field)); }
  template <class Number>
  Number as(uint64_t field) const {
    Number value;
    std::memcpy(&value, bytes(field).data(), sizeof(Number));
    return value;
  }

 private:
  static uint64_t varint(const std::string& bytes, size_t& at) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const uint64_t byte = static_cast<uint8_t>(bytes.at(at++));
      value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  }
  std::map<uint64_t, std::vector<uint64_t>> numbers_;
  std::map<uint64_t, std::vector<std::string>> payloads_;
};

/// The events of a file; throws where a length or a check value is wrong.
inline std::vector<WireMessage> events_of(const std::filesystem::path& path) {
  const std::string file = content_of(path);
  const auto check = [&](size_t at, size_t size) {
    const uint32_t crc = slow_crc32c(file.substr(at, size));
    const uint32_t masked = ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
    uint32_t stored;
    std::memcpy(&stored, file.substr(at + size, 4).data(), 4);
    if (masked != stored) throw std::runtime_error("check value at byte " + std::to_string(at));
  };
  std::vector<WireMessage> events;
  for (size_t at = 0; at < file.size();) {
    uint64_t size;
    if (at + 12 > file.size()) throw std::runtime_error("torn frame");
    std::memcpy(&size, file.data() + at, 8);
    check(at, 8);
    if (at + 12 + size + 4 > file.size()) throw std::runtime_error("torn frame");
    check(at + 12, size);
    events.emplace_back(file.substr(at + 12, size));
    at += 12 + size + 4;
  }
  return events;
}

}  // namespace ballast
