// SPDX-License-Identifier: Apache-2.0
// What a prediction module reads and predicts: tokens further on in the same document.
#pragma once

#include <cstdint>
#include <vector>

#include "data/batch.h"

namespace ballast {

/// Arrays of a batch as module j sees them, each [rows, length]. Position t looks at t + j where both lie in one
/// document; elsewhere all entries are 0.
struct FurtherTokens {
  std::vector<int32_t> inputs;   ///< token at t + j
  std::vector<int32_t> targets;  ///< the one behind it
  std::vector<int32_t> counts;   ///< 1: the target at t + j counts in the loss
  std::vector<int32_t> exists;   ///< 1: there is a token at t + j in the document of t
};

/// @param distance  j, from 1
FurtherTokens further_tokens(const HostBatch& batch, int64_t distance);

}  // namespace ballast
