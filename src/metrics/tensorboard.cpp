// SPDX-License-Identifier: Apache-2.0
// Field numbers: tensorflow/core/util/event.proto, framework/summary.proto and framework/tensor.proto of
// tensorflow/tensorflow; frame: core/lib/io/record_writer.cc of the same repository.
#include "metrics/tensorboard.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <type_traits>

namespace ballast {
namespace {

enum WireType : uint32_t { kVarint = 0, kEightBytes = 1, kLengthDelimited = 2, kFourBytes = 5 };

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ (rest & 1 ? 0x82F63B78u : 0u);
    table[byte] = rest;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kCrcTable = make_crc_table();

template <class Unsigned>
std::string little_endian(Unsigned value) {
  static_assert(std::is_unsigned_v<Unsigned>);
  std::string bytes;
  for (size_t i = 0; i < sizeof(Unsigned); ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xFF);
  return bytes;
}

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7F) | 0x80);
  return bytes + static_cast<char>(value);
}

std::string key(uint32_t field, WireType type) {
  return varint((field << 3) | type);
}

std::string integer_field(uint32_t field, int64_t value) {
  return key(field, kVarint) + varint(static_cast<uint64_t>(value));
}

std::string bytes_field(uint32_t field, std::string_view bytes) {
  return (key(field, kLengthDelimited) + varint(bytes.size())).append(bytes);
}

std::string float_field(uint32_t field, float value) {
  return key(field, kFourBytes) + little_endian(std::bit_cast<uint32_t>(value));
}

std::string double_field(uint32_t field, double value) {
  return key(field, kEightBytes) + little_endian(std::bit_cast<uint64_t>(value));
}

/// The check value of a frame: stored rotated, so that a checksum of data with checksums inside stays sound.
std::string masked_crc(std::string_view bytes) {
  return little_endian(std::rotr(crc32c(bytes), 15) + 0xA282EAD8u);
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

std::filesystem::path free_event_path(const std::filesystem::path& folder) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::string stem = "events.out.tfevents." +
                           std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now).count()) + "." +
                           host_name() + "." + std::to_string(getpid()) + ".";
  int number = 0;
  while (std::filesystem::exists(folder / (stem + std::to_string(number)))) ++number;
  return folder / (stem + std::to_string(number));
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFFu;
  for (const char byte : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<uint8_t>(byte)) & 0xFF];
  return ~crc;
}

TensorBoardWriter::TensorBoardWriter(const std::filesystem::path& folder, std::optional<int64_t> restart_step)
    : file_(free_event_path(folder), OutputFile::Start::kEmpty) {
  write_event(0, bytes_field(3, "brain.Event:2"));
  if (restart_step) {
    constexpr int64_t kStart = 1;
    write_event(*restart_step, bytes_field(7, integer_field(1, kStart)));
  }
}

void TensorBoardWriter::write(const Record& record) {
  std::string summary;
  for (const auto& [tag, value] : record.scalars) {
    summary += bytes_field(1, bytes_field(1, tag) + float_field(2, static_cast<float>(value)));
  }
  write_event(record.step, bytes_field(5, summary));
}

void TensorBoardWriter::text(const std::string& tag, const std::string& text) {
  constexpr int64_t kString = 7;
  const std::string shape = bytes_field(2, integer_field(1, 1));
  const std::string tensor = integer_field(1, kString) + bytes_field(2, shape) + bytes_field(8, text);
  const std::string metadata = bytes_field(1, bytes_field(1, "text"));
  write_event(0,
              bytes_field(5, bytes_field(1, bytes_field(1, tag) + bytes_field(8, tensor) + bytes_field(9, metadata))));
}

void TensorBoardWriter::write_event(int64_t step, std::string_view payload) {
  const std::chrono::duration<double> wall_time = std::chrono::system_clock::now().time_since_epoch();
  const std::string event = (double_field(1, wall_time.count()) + integer_field(2, step)).append(payload);
  const std::string length = little_endian(static_cast<uint64_t>(event.size()));
  file_.write(length + masked_crc(length) + event + masked_crc(event));
}

}  // namespace ballast
