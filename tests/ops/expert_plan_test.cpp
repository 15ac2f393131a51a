// SPDX-License-Identifier: Apache-2.0
#include "ops/expert_plan.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "errors/errors.h"
#include "ops/expert_kinds.h"

namespace ballast {
namespace {

using Planner = std::function<ExpertPlan(const at::Tensor&, int64_t)>;
const std::vector<Planner> kPlanners = {plan_experts, plan_by_counting, plan_by_sorting};

std::vector<int64_t> numbers_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.reshape({-1}).contiguous();
  return {flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + flat.numel()};
}

TEST(ExpertPlan, SortsChoicesByExpertInTheOrderOfTokensAndSlots) {
  // Choices 0 .. 5 by place: 2, 0 | -1, 2 | 0, 3. Expert 0: places 1, 4; 2: places 0, 3; 3: place 5.
  const at::Tensor expert_NK = at::tensor({2, 0, -1, 2, 0, 3}, at::kLong).view({3, 2});
  for (const Planner& planned : kPlanners) {
    const ExpertPlan plan = planned(expert_NK, 5);
    EXPECT_EQ(plan.num_tokens, 3);
    EXPECT_EQ(plan.num_choices, 2);
    EXPECT_EQ(plan.num_experts(), 5);
    EXPECT_EQ(plan.num_rows(), 5);
    EXPECT_EQ(plan.offsets, (std::vector<int64_t>{0, 2, 2, 4, 5, 5}));
    EXPECT_EQ(numbers_of(plan.choice_R), (std::vector<int64_t>{1, 4, 0, 3, 5}));
    EXPECT_EQ(numbers_of(plan.row_NK), (std::vector<int64_t>{2, 0, -1, 3, 1, 4}));
    EXPECT_EQ(plan.row_NK.sizes(), expert_NK.sizes());
  }
}

TEST(ExpertPlan, HasNoRowsWhereNothingIsChosen) {
  for (const Planner& planned : kPlanners) {
    for (const at::Tensor& expert_NK : {at::full({4, 2}, -1, at::kLong), at::empty({0, 2}, at::kLong)}) {
      const ExpertPlan plan = planned(expert_NK, 3);
      EXPECT_EQ(plan.num_rows(), 0);
      EXPECT_EQ(plan.offsets, (std::vector<int64_t>{0, 0, 0, 0}));
      EXPECT_EQ(plan.choice_R.numel(), 0);
      EXPECT_TRUE(at::equal(plan.row_NK, at::full_like(expert_NK, -1)));
    }
  }
}

TEST(ExpertPlan, RowsAndChoicesAreInverse) {
  const at::Tensor expert_NK =
      at::randint(-1, 17, {50, 4}, at::detail::createCPUGenerator(1), at::TensorOptions().dtype(at::kLong));
  const ExpertPlan a = plan_by_counting(expert_NK, 17), b = plan_by_sorting(expert_NK, 17);
  EXPECT_EQ(a.offsets, b.offsets);
  EXPECT_TRUE(at::equal(a.choice_R, b.choice_R));
  EXPECT_TRUE(at::equal(a.row_NK, b.row_NK));
  EXPECT_TRUE(at::equal(a.row_NK.view({-1}).index_select(0, a.choice_R), at::arange(a.num_rows())));
  for (int64_t e = 0; e < 17; ++e) {
    const auto i = static_cast<size_t>(e);
    EXPECT_EQ(a.offsets[i + 1] - a.offsets[i], expert_NK.eq(e).sum().item<int64_t>());
  }
  const at::Tensor transposed_KN = expert_NK.t();
  EXPECT_TRUE(
      at::equal(plan_experts(transposed_KN, 17).choice_R, plan_experts(transposed_KN.contiguous(), 17).choice_R));
}

TEST(ExpertPlan, RefusesExpertsOutsideTheRange) {
  for (const Planner& planned : kPlanners) {
    EXPECT_THROW(planned(at::tensor({0, 3}, at::kLong).view({1, 2}), 3), ShapeError);
    EXPECT_THROW(planned(at::tensor({0, -2}, at::kLong).view({1, 2}), 3), ShapeError);
  }
  EXPECT_THROW(plan_experts(at::zeros({3}, at::kLong), 3), ShapeError);
  EXPECT_THROW(plan_experts(at::zeros({3, 1}, at::kInt), 3), ShapeError);
}

}  // namespace
}  // namespace ballast
