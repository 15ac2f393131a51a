// SPDX-License-Identifier: Apache-2.0
// Between tensors and the bytes of a safetensors file.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <span>
#include <string>

#include "files/safetensors.h"

namespace ballast {

/// The element type that stands for a stored one. @throws CheckpointError where torch has none
at::ScalarType tensor_type(const StoredTensor& stored);

/// A tensor over the file's own bytes, in the stored type: valid as long as the mapping, not to be written to.
/// @throws CheckpointError for a type that torch has no counterpart of
at::Tensor borrow_stored(const StoredTensor& stored, std::span<const std::byte> bytes);

/// Name, type, shape and bytes of a contiguous CPU tensor, which must outlive the result.
TensorBytes store_tensor(const std::string& name, const at::Tensor& tensor);

}  // namespace ballast
