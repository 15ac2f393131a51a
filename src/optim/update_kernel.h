// SPDX-License-Identifier: Apache-2.0
// The optimizer's passes over plain floats: the AdamW update and the sum of squares. No torch.
#pragma once

#include <cstdint>

namespace ballast {

/// Where the bias correction of AdamW sits, and which mean of the gradient it steps along (adamw.h).
enum class AdamForm {
  kBiasCorrected,   ///< optax adamw
  kNesterov,        ///< the same with a Nesterov estimate: what Muon does with what is no matrix
  kCorrectedDecay,  ///< adam_pax
};

/// What an update multiplies with.
struct AdamFactors {
  double b1 = 0, b2 = 0;            ///< decays of the stored moments
  double m_share = 0, g_share = 0;  ///< the step goes along m_share * m + g_share * g ...
  double v_share = 0;               ///< ... over the root of v_share * v
};

/// The numbers of one AdamW update. Derived factors are formed in double, the update itself runs in fp32.
struct AdamWNumbers {
  AdamForm form = AdamForm::kBiasCorrected;
  double learning_rate = 0;
  double weight_decay = 0;  ///< 0 where the parameter does not decay
  double b1 = 0;
  double b2 = 0;
  double eps = 0;
  double eps_root = 0;
  double grad_scale = 1;  ///< multiplies the gradient
  int64_t t = 1;          ///< number of updates, this one included

  AdamFactors factors() const;
};

/// Updates p, m and v of `count` elements in place by the formula of AdamW (adamw.h).
void adamw_update_span(const AdamWNumbers& numbers, float* p, const float* grad, float* m, float* v, int64_t count);

/// The same with m in bfloat16, given as its bits. The step goes along the mean before it is rounded to be stored.
void adamw_update_span(const AdamWNumbers& numbers, float* p, const float* grad, uint16_t* m, float* v, int64_t count);

/// Sum of x[i]^2 in double. The order of summation is fixed, and the square of a float is exact in double, so every
/// processor returns the same bits.
double sum_of_squares(const float* x, int64_t count);

}  // namespace ballast
