// SPDX-License-Identifier: Apache-2.0
// How the tensors of a decoder lie in a Hugging Face folder: under which names, in which pieces.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "models/decoder.h"

namespace ballast {

/// One of our tensors, or one expert of it, inside a tensor of a folder.
struct HfPart {
  std::string own_name;
  int64_t expert = -1;  ///< index into the first dimension of our tensor; -1: all of it
  int64_t place = 0;    ///< the part is every `count`-th entry of the folder's last dimension, from `place` on
  int64_t count = 1;
  bool is_transposed = false;  ///< the folder swaps the last two dimensions

  /// The same numbers on both sides, as views of equal shape.
  at::Tensor view_of_own(const at::Tensor& own) const;
  at::Tensor view_of_hf(const at::Tensor& hf) const;
  /// Whether both sides are one and the same tensor.
  bool is_whole() const { return expert < 0 && count == 1 && !is_transposed; }
};

/// A tensor of a folder: its parts fill it.
struct HfTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<HfPart> parts;
};

/// Every tensor that a folder holds for `decoder`: all but those of prediction modules, which transformers has not.
/// Tensors that are made of the same tensors of ours are neighbours.
std::vector<HfTensor> hf_layout(const Decoder& decoder);

/// The tensor of a folder, put together from ours. @param own  our tensor of a name
at::Tensor assemble(const HfTensor& tensor, const std::function<at::Tensor(const std::string& own_name)>& own);

}  // namespace ballast
