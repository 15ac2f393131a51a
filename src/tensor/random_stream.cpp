// SPDX-License-Identifier: Apache-2.0
#include "tensor/random_stream.h"

#include <ATen/CPUGeneratorImpl.h>

namespace ballast {

uint64_t stream_key(uint64_t seed, std::string_view purpose, std::initializer_list<uint64_t> numbers) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  const auto mix_byte = [&hash](uint8_t byte) { hash = (hash ^ byte) * 0x100000001b3ULL; };
  const auto mix_word = [&mix_byte](uint64_t word) {
    for (int shift = 0; shift < 64; shift += 8) mix_byte(static_cast<uint8_t>(word >> shift));
  };
  mix_word(seed);
  for (const char letter : purpose) mix_byte(static_cast<uint8_t>(letter));
  mix_byte(0);  // ends the name, so that ("a", 1) and ("a\1", ...) differ
  for (const uint64_t number : numbers) mix_word(number);
  hash += 0x9e3779b97f4a7c15ULL;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ULL;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebULL;
  return hash ^ (hash >> 31);
}

at::Generator cpu_stream(uint64_t key) {
  return at::detail::createCPUGenerator(key);
}

}  // namespace ballast
