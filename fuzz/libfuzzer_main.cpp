// SPDX-License-Identifier: Apache-2.0
// What libFuzzer calls; BALLAST_FUZZ_TARGET is a function of targets.h.
#include <cstddef>
#include <cstdint>

#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ballast::fuzz::BALLAST_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
