// SPDX-License-Identifier: Apache-2.0
// The tensors of a Hugging Face folder as values, whatever they are stored as.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "files/safetensors.h"

namespace ballast {

/// Values of MXFP4 blocks, [..., out, 32 groups] in bf16, which holds them all but the smallest (below 2^-126) exactly.
///
///   value = e2m1(nibble) * 2^(scale - 127), e2m1 = 0, .5, 1, 1.5, 2, 3, 4, 6 and their negatives, low nibble first
///
/// @param blocks  uint8 [..., out, groups, 16]
/// @param scales  uint8 [..., out, groups]
/// @source OCP Microscaling Formats (MX) specification 1.0, sections 5.3.3 and 5.4.1
at::Tensor decode_mxfp4(const at::Tensor& blocks, const at::Tensor& scales);

/// A folder's weights by name. A pair NAME_blocks, NAME_scales stands for the tensor NAME [E, in, out] that it encodes
/// (gpt-oss as released).
class HfTensors {
 public:
  /// @throws CheckpointError for a pair whose shapes or types do not fit together
  explicit HfTensors(SafetensorsFolder folder);

  /// Sorted.
  std::vector<std::string> names() const;
  /// Null when there is no tensor of this name.
  const StoredTensor* find(const std::string& name) const;
  const StoredTensor& at(const std::string& name) const { return tensors_.at(name); }
  /// Valid as long as this object; not to be written to.
  at::Tensor read(const std::string& name) const;

 private:
  SafetensorsFolder folder_;
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace ballast
