// SPDX-License-Identifier: Apache-2.0
// What this processor can do, as far as the choice of number types depends on it.
#pragma once

namespace ballast {

/// Whether matrix products of bf16 operands run in hardware (AVX-512 BF16, AMX, Arm BF16). Without it such a product
/// is many times slower than one in fp32.
bool has_native_bf16_gemm();

}  // namespace ballast
