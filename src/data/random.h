// SPDX-License-Identifier: Apache-2.0
// The random numbers of the data pipeline: equal on every machine, compiler and library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace ballast {

/// What a stream of random numbers is for. Streams of one seed are independent of one another.
enum class DataStream : uint64_t { kFileOrder = 1, kShuffleBuffer = 2, kSyntheticTokens = 3, kSyntheticBorders = 4 };

/// A stream of 64-bit numbers: number i is mix(key + (i + 1) * 0x9e3779b97f4a7c15), with mix the finaliser of
/// SplitMix64 (Steele, Lea, Flood 2014); the key is formed from the stream and the seeds by the same mix.
class DataRandom {
 public:
  DataRandom(DataStream stream, std::initializer_list<uint64_t> seeds) : state_(mix(static_cast<uint64_t>(stream))) {
    for (const uint64_t seed : seeds) state_ = mix(state_ ^ mix(seed + kStep));
  }

  uint64_t next() { return mix(state_ += kStep); }

  /// Uniform in [0, bound), bound > 0: the upper half of next() * bound. Off uniform by less than bound / 2^64.
  uint64_t below(uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((static_cast<Wide>(next()) * bound) >> 64);
  }

  /// Fisher-Yates: the last place draws first.
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (size_t left = values.size(); left > 1; --left) std::swap(values[left - 1], values[below(left)]);
  }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15;

  static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  uint64_t state_;
};

}  // namespace ballast
