// SPDX-License-Identifier: Apache-2.0
#include "losses/loss_terms.h"

#include <gtest/gtest.h>

#include "errors/errors.h"

namespace ballast {
namespace {

TEST(LossTerms, ObjectiveIsTheSumAndCarriesEveryGradient) {
  const at::Tensor x = at::tensor({2.0}, at::kDouble).set_requires_grad(true);
  LossTerms terms;
  terms.add("a", (x * 3).sum());
  terms.add("b", (x * x).sum());
  EXPECT_EQ(terms.objective().item<double>(), 10.0);
  terms.objective().backward();
  EXPECT_EQ(x.grad().item<double>(), 7.0);
}

TEST(LossTerms, WithoutTermsIsOurOwnMistake) {
  EXPECT_THROW(LossTerms().objective(), InternalError);
}

TEST(StepDivisors, AStepWithoutTargetsDividesByOne) {
  EXPECT_EQ(StepDivisors{.loss_tokens = 0}.per_loss_token(), 1.0);
  EXPECT_EQ(StepDivisors{.loss_tokens = 4}.per_loss_token(), 0.25);
}

// A logistic model of one weight: logit w x, four rows, the last one not counted, and a term that is a mean over rows,
// 0.5 mean((w x)^2). Two strided micro-batches give the loss and gradient of the whole batch:
//   loss 0.981832357, gradient 2.249534546 (numpy, float64). Dividing the mean-type term by W instead
//   gives 1.499534546.
TEST(StepDivisors, UnequalMicroBatchesGiveTheLossAndGradientOfOneBatch) {
  const at::Tensor x = at::tensor({1.0, 2.0, 3.0, 4.0}, at::kDouble), y = at::tensor({1.0, 0.0, 1.0, 1.0}, at::kDouble);
  const at::Tensor mask = at::tensor({1.0, 1.0, 1.0, 0.0}, at::kDouble);
  for (const int64_t count : {1, 2}) {
    const StepDivisors divisors{.loss_tokens = 3, .micro_batches = count};
    const at::Tensor w = at::full({1}, 0.3, at::kDouble).set_requires_grad(true);
    double loss = 0;
    for (int64_t i = 0; i < count; ++i) {
      const at::Tensor rows = at::arange(i, 4, count, at::kLong);
      const at::Tensor logit = w * x.index_select(0, rows);
      const at::Tensor ce = at::softplus(logit) - y.index_select(0, rows) * logit;
      LossTerms terms;
      terms.add("lm_loss", (ce * mask.index_select(0, rows)).sum() * divisors.per_loss_token());
      terms.add("mean_term", 0.5 * logit.square().mean() * divisors.per_micro_batch());
      terms.objective().backward();
      loss += terms.objective().item<double>();
    }
    EXPECT_NEAR(loss, 0.981832357, 1e-9) << count << " micro-batches";
    EXPECT_NEAR(w.grad().item<double>(), 2.249534546, 1e-9) << count << " micro-batches";
  }
}

}  // namespace
}  // namespace ballast
