// SPDX-License-Identifier: Apache-2.0
#include "tensor/stored_tensor.h"

#include <array>
#include <utility>

#include "errors/errors.h"

namespace ballast {
namespace {

constexpr std::array<std::pair<StoredType, at::ScalarType>, 12> kTypePairs = {{
    {StoredType::kF64, at::kDouble},
    {StoredType::kF32, at::kFloat},
    {StoredType::kF16, at::kHalf},
    {StoredType::kBF16, at::kBFloat16},
    {StoredType::kF8E4M3, at::kFloat8_e4m3fn},
    {StoredType::kF8E5M2, at::kFloat8_e5m2},
    {StoredType::kI64, at::kLong},
    {StoredType::kI32, at::kInt},
    {StoredType::kI16, at::kShort},
    {StoredType::kI8, at::kChar},
    {StoredType::kU8, at::kByte},
    {StoredType::kBool, at::kBool},
}};

}  // namespace

at::ScalarType tensor_type(const StoredTensor& stored) {
  for (const auto& [file_type, type] : kTypePairs) {
    if (file_type == stored.type) return type;
  }
  throw CheckpointError({.where = stored.name,
                         .what = "element type cannot be read as a tensor",
                         .got = std::string(stored_type_name(stored.type)),
                         .need = {},
                         .attempt = {}});
}

at::Tensor borrow_stored(const StoredTensor& stored, std::span<const std::byte> bytes) {
  auto* data = const_cast<std::byte*>(bytes.data());  // from_blob takes no const; nobody writes
  return at::from_blob(data, stored.shape, at::TensorOptions().dtype(tensor_type(stored)));
}

TensorBytes store_tensor(const std::string& name, const at::Tensor& tensor) {
  BALLAST_CHECK(tensor.is_contiguous() && tensor.device().is_cpu(), name);
  for (const auto& [file_type, type] : kTypePairs) {
    if (type != tensor.scalar_type()) continue;
    return {{name, file_type, tensor.sizes().vec()},
            {static_cast<const std::byte*>(tensor.const_data_ptr()), static_cast<size_t>(tensor.nbytes())}};
  }
  throw InternalError({.where = name,
                       .what = "element type cannot be stored",
                       .got = c10::toString(tensor.scalar_type()),
                       .need = {},
                       .attempt = {}});
}

}  // namespace ballast
