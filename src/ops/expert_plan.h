// SPDX-License-Identifier: Apache-2.0
// Which rows each expert computes: the choices of all tokens, sorted by expert.
//
// Shape letters: N tokens, K choices a token, E experts, R rows = choices that are computed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace ballast {

struct ExpertPlan {
  int64_t num_tokens = 0;
  int64_t num_choices = 0;       ///< K
  std::vector<int64_t> offsets;  ///< E + 1 row numbers on the host: expert e has the rows offsets[e] to offsets[e+1]
  at::Tensor choice_R;           ///< int64 place of each row in the flattened [N, K]; ascending inside an expert
  at::Tensor row_NK;             ///< int64 row of each choice; -1: not computed

  int64_t num_experts() const { return static_cast<int64_t>(offsets.size()) - 1; }
  int64_t num_rows() const { return offsets.back(); }
};

/// Sorts choices by expert; equal experts stay in the order (token, slot).
///
/// @param expert_NK  int64 in [0, num_experts), or -1: this choice is not computed (padding, dropped)
/// @throws ShapeError for an expert outside the range
ExpertPlan plan_experts(const at::Tensor& expert_NK, int64_t num_experts);

}  // namespace ballast
