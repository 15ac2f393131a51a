// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checksum.h"

#include <cstdio>

#include <xxhash.h>
#ifdef __x86_64__
#include <xxh_x86dispatch.h>  // the widest instructions of the processor
#endif

namespace ballast {
namespace {

std::string digits(XXH64_hash_t hash) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace

struct Checksum::State {
  XXH3_state_t xxh;
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->xxh);
}
Checksum::~Checksum() = default;

void Checksum::update(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size());
}

std::string Checksum::text() const {
  return digits(XXH3_64bits_digest(&state_->xxh));
}

std::string checksum_of(std::span<const std::byte> bytes) {
  return digits(XXH3_64bits(bytes.data(), bytes.size()));
}

std::string checksum_of(std::string_view text) {
  return checksum_of(std::as_bytes(std::span(text)));
}

}  // namespace ballast
