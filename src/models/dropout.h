// SPDX-License-Identifier: Apache-2.0
// Dropout whose mask depends on the row's place in the run, not on how the batch was cut.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "models/batch_context.h"

namespace ballast {

/// Drops each element with probability `rate` and scales the others by 1 / (1 - rate). The mask of a row comes from
/// the stream (seed, step, row in the global batch, layer, place): equal for any number of micro-batches, and again
/// in the second run of a rematerialised block. Identity outside training or when rate is 0.
///
/// @param x_BTD  one row of the micro-batch each
/// @param place  which of a layer's dropouts this is
at::Tensor dropout(const at::Tensor& x_BTD, double rate, const BatchContext& batch, int64_t layer, int64_t place);

}  // namespace ballast
