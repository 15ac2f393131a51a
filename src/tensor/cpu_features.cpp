// SPDX-License-Identifier: Apache-2.0
#include "tensor/cpu_features.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace ballast {

bool has_native_bf16_gemm() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16");  // every processor with AMX has it too
#elif defined(__aarch64__) && defined(__linux__)
  constexpr unsigned long kBf16 = 1UL << 14;  // HWCAP2_BF16 of the kernel's interface
  return (getauxval(AT_HWCAP2) & kBf16) != 0;
#else
  return false;
#endif
}

}  // namespace ballast
