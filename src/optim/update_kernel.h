// SPDX-License-Identifier: Apache-2.0
// The optimizer's passes over plain floats: the AdamW update and the sum of squares. No torch.
#pragma once

#include <cstdint>

namespace ballast {

/// The numbers of one AdamW update. Derived factors are formed in double, the update itself runs in fp32.
struct AdamWNumbers {
  double learning_rate = 0;
  double weight_decay = 0;  ///< 0 where the parameter does not decay
  double b1 = 0;
  double b2 = 0;
  double eps = 0;
  double eps_root = 0;
  double grad_scale = 1;  ///< multiplies the gradient
  int64_t t = 1;          ///< number of updates, this one included

  double m_correction() const;  ///< 1 / (1 - b1^t)
  double v_correction() const;  ///< 1 / (1 - b2^t)
};

/// Updates p, m and v of `count` elements in place by the formula of AdamW (adamw.h).
void adamw_update_span(const AdamWNumbers& numbers, float* p, const float* grad, float* m, float* v, int64_t count);

/// Sum of x[i]^2 in double. The order of summation is fixed, and the square of a float is exact in double, so every
/// processor returns the same bits.
double sum_of_squares(const float* x, int64_t count);

}  // namespace ballast
