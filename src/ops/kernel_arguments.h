// SPDX-License-Identifier: Apache-2.0
// From tensors to the plain arrays of own kernels.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>

namespace ballast {

/// Whether own kernels take these tensors: all on the CPU and of one type, fp32 or bf16.
inline bool kernels_take(std::initializer_list<at::Tensor> tensors) {
  const at::ScalarType type = tensors.begin()->scalar_type();
  if (type != at::kFloat && type != at::kBFloat16) return false;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.is_cpu() || tensor.scalar_type() != type) return false;
  }
  return true;
}

/// Calls run(T()) with the element type a kernel knows `type` by: float, or uint16_t for bf16.
template <typename Run>
void with_kernel_type(at::ScalarType type, const Run& run) {
  // The branches differ in the type alone. NOLINTNEXTLINE(bugprone-branch-clone)
  if (type == at::kFloat) {
    run(float());
  } else {
    run(uint16_t());
  }
}

template <typename T>
const T* kernel_data(const at::Tensor& tensor) {
  return static_cast<const T*>(tensor.const_data_ptr());
}
template <typename T>
T* mutable_kernel_data(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

/// Elements a thread takes at least.
constexpr int64_t kKernelGrain = 16384;

}  // namespace ballast
