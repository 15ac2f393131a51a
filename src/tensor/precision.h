// SPDX-License-Identifier: Apache-2.0
// Which number type each part of the computation uses, decided once at start-up.
#pragma once

#include <ATen/ATen.h>

#include <string>

namespace ballast {

/// Masters, gradients and moments are fp32 whatever is asked here (fp64 only in tests of formulas).
struct Precision {
  at::ScalarType activation = at::kFloat;  ///< `dtype`: what the residual stream holds
  at::ScalarType weight = at::kFloat;      ///< `weight_dtype`: what the model sees of a master
  at::ScalarType product = at::kFloat;     ///< storage of the weight copy that products read
  at::ScalarType master = at::kFloat;

  /// The type a product of activations runs in on this device: the activation type where the device multiplies it
  /// natively, else fp32 on values rounded to the activation type.
  static Precision resolve(const std::string& dtype, const std::string& weight_dtype, const at::Device& device);

  /// The copy of a master that the forward pass reads: rounded to the weight type, then to the activation type,
  /// stored in the product type. The master itself (same storage) where nothing is to be rounded.
  at::Tensor weight_copy(const at::Tensor& master_value) const;
};

/// "float32", "bfloat16" or "float16" as a torch type. @throws ConfigError naming `key` otherwise.
at::ScalarType parse_dtype(const std::string& name, const std::string& key);

}  // namespace ballast
