// SPDX-License-Identifier: Apache-2.0
// What own kernels share: clones for several instruction sets, e^x without branches, bf16 as bits.
#pragma once

#include <bit>
#include <cstdint>

// One copy of each function an instruction set, chosen when the program is loaded. The loops are written so that
// the compiler vectorises them: sums and maxima have a lane each, exp and tanh have no branches.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define BALLAST_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define BALLAST_VECTOR_CLONES
#endif
#define BALLAST_INLINE inline __attribute__((always_inline))

namespace ballast {

/// e^x for x <= 0, 0 below the smallest normal result; NaN stays NaN. x = n ln 2 + r, |r| <= ln(2)/2: 2^n times the
/// Taylor polynomial of degree 7 of e^r, whose remainder is 5e-9.
BALLAST_INLINE float exp_of_nonpositive(float x) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const float shifted = x * 1.44269504F + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693145752F) - n * 1.42860677e-6F;  // ln 2 in two parts, the first exact in products
  float p = 1.0F / 5040;
  p = p * r + 1.0F / 720;
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  // The integer sits in the low mantissa bits of `shifted`; the shift leaves it in the exponent.
  const float power = std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) + 127U) << 23);
  return x < -87.0F ? 0.0F : p * power;
}

BALLAST_INLINE float to_float(float x) {
  return x;
}
/// bf16 is the upper half of a float.
BALLAST_INLINE float to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

/// x in the element type of a kernel's arrays: float, or bf16 as bits (nearest, ties to even; NaN stays NaN).
template <typename T>
BALLAST_INLINE T from_float(float x) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return x;
  } else {
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    const uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
    return static_cast<T>(x != x ? 0x7FC0U : rounded);
  }
}

}  // namespace ballast
