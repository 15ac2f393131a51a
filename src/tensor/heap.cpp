// SPDX-License-Identifier: Apache-2.0
#include "tensor/heap.h"

#include <cstdlib>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace ballast {

void keep_freed_memory() {
#ifdef __GLIBC__
  if (std::getenv("MALLOC_TRIM_THRESHOLD_") != nullptr || std::getenv("MALLOC_MMAP_MAX_") != nullptr) return;
  mallopt(M_TRIM_THRESHOLD, -1);  // never
  mallopt(M_MMAP_MAX, 0);         // large blocks come from the heap
#endif
}

void return_freed_memory() {
#ifdef __GLIBC__
  constexpr int kLargeBytes = 1 << 20;  // a number that is set keeps the library from raising its own
  mallopt(M_MMAP_THRESHOLD, kLargeBytes);
#endif
}

}  // namespace ballast
