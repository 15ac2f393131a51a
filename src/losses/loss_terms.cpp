// SPDX-License-Identifier: Apache-2.0
#include "losses/loss_terms.h"

#include "errors/errors.h"

namespace ballast {

double LossTerms::value_of(const std::string& name) const {
  double sum = 0;
  for (const LossTerm& term : terms_) sum += term.name == name ? term.share.item<double>() : 0.0;
  return sum;
}

at::Tensor LossTerms::objective() const {
  BALLAST_CHECK(!terms_.empty(), "an objective needs at least one term");
  at::Tensor sum = terms_.front().share;
  for (size_t i = 1; i < terms_.size(); ++i) sum = sum + terms_[i].share;
  return sum;
}

}  // namespace ballast
