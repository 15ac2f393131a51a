// SPDX-License-Identifier: Apache-2.0
#include "losses/loss_terms.h"

#include "errors/errors.h"

namespace ballast {

at::Tensor LossTerms::objective() const {
  BALLAST_CHECK(!terms_.empty(), "an objective needs at least one term");
  at::Tensor sum = terms_.front().share;
  for (size_t i = 1; i < terms_.size(); ++i) sum = sum + terms_[i].share;
  return sum;
}

}  // namespace ballast
