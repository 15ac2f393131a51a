// SPDX-License-Identifier: Apache-2.0
// The softmax rows of cross_entropy.h in fp32 on the CPU.
#pragma once

#include <cstdint>

namespace ballast {

/// A tile of rows. `logits` holds the raw products and is overwritten: by the gradient of sum weight * (ce + z) with
/// respect to them where makes_gradient is set, else by anything.
struct CrossEntropyRows {
  float* logits = nullptr;  ///< [rows, vocab], contiguous
  int64_t vocab = 0;
  const int64_t* target = nullptr;  ///< [rows], in [0, vocab)
  const float* weight = nullptr;    ///< [rows], read for the gradient only
  float* ce = nullptr;              ///< [rows]
  float* z = nullptr;               ///< [rows]
  double z_loss_multiplier = 0;
  float logits_scale = 1;
  float soft_cap = 0;
  bool makes_gradient = false;
};

/// Rows [begin, end). Each row is summed in an order that depends neither on threads nor on the width of vectors.
void cross_entropy_rows(const CrossEntropyRows& rows, int64_t begin, int64_t end);

}  // namespace ballast
