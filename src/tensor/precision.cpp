// SPDX-License-Identifier: Apache-2.0
#include "tensor/precision.h"

#include "errors/errors.h"
#include "tensor/cpu_features.h"

namespace ballast {

at::ScalarType parse_dtype(const std::string& name, const std::string& key) {
  if (name == "float32") return at::kFloat;
  if (name == "bfloat16") return at::kBFloat16;
  throw ConfigError({.where = key,
                     .what = "number type is not supported",
                     .got = name,
                     .need = "float32 or bfloat16",
                     .attempt = {}});
}

Precision Precision::resolve(const std::string& dtype, const std::string& weight_dtype, const at::Device& device) {
  Precision precision;
  precision.activation = parse_dtype(dtype, "dtype");
  precision.weight = parse_dtype(weight_dtype, "weight_dtype");
  const bool is_native = precision.activation == at::kFloat || !device.is_cpu() || has_native_bf16_gemm();
  precision.product = is_native ? precision.activation : at::kFloat;
  return precision;
}

at::Tensor Precision::weight_copy(const at::Tensor& master_value) const {
  // Rounding first to the weight type and then to the activation type is what a model stored in the weight type does.
  return master_value.detach().to(weight).to(activation).to(product);
}

}  // namespace ballast
