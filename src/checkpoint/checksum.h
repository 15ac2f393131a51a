// SPDX-License-Identifier: Apache-2.0
// The checksum of checkpoint files: XXH3, 64 bits.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ballast {

/// Takes bytes in pieces; their cut does not matter.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void update(std::span<const std::byte> bytes);
  /// Of all bytes so far, 16 hexadecimal digits.
  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string checksum_of(std::span<const std::byte> bytes);
std::string checksum_of(std::string_view text);

}  // namespace ballast
