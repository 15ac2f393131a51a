// SPDX-License-Identifier: Apache-2.0
// Rows that come with one token more than they are long.
#pragma once

#include <cstdint>
#include <span>

#include "data/batch.h"

namespace ballast {

/// Writes row `index` of `batch` (length T) from T + 1 tokens: inputs are the first T, targets the last T. Of the T + 1
/// segment numbers, the first T are the inputs' segments; position t counts iff segments[t] = segments[t+1] != 0.
/// Positions restart at each change of the segment.
void fill_row_from_tokens(HostBatch& batch, int64_t index, std::span<const int32_t> tokens,
                          std::span<const int32_t> segments);

}  // namespace ballast
