// SPDX-License-Identifier: Apache-2.0
// Arguments of operations: their error line, and tensors that may be absent.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "errors/errors.h"

namespace ballast {

/// Throws ShapeError `where: what; got ..., need ...`.
[[noreturn]] inline void shape_fault(const std::string& where, const std::string& what, const std::string& got,
                                     const std::string& need) {
  throw ShapeError({.where = where, .what = what, .got = got, .need = need, .attempt = {}});
}

/// A custom autograd function takes an absent tensor as an empty optional only.
inline std::optional<at::Tensor> optional_of(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
}

/// The same values without history: autograd writes its marks onto the tensors that a function returns, and a result
/// that is given to it must not carry them.
inline at::Tensor fresh_handle(const at::Tensor& tensor) {
  return tensor.variable_data();
}

}  // namespace ballast
