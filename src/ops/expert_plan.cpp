// SPDX-License-Identifier: Apache-2.0
#include "ops/expert_plan.h"

#include <ATen/ATen.h>

#include "ops/arguments.h"
#include "ops/expert_kinds.h"

namespace ballast {
namespace {

[[noreturn]] void expert_fault(int64_t expert, int64_t num_experts) {
  shape_fault("ops.plan_experts", "an expert is outside the range", std::to_string(expert),
              c10::str("-1 to ", num_experts - 1));
}

}  // namespace

ExpertPlan plan_by_counting(const at::Tensor& expert_NK, int64_t num_experts) {
  const at::Tensor expert = expert_NK.contiguous();
  const int64_t* choices = expert.const_data_ptr<int64_t>();
  ExpertPlan plan;
  plan.num_tokens = expert.size(0), plan.num_choices = expert.size(1);
  std::vector<int64_t> next(static_cast<size_t>(num_experts) + 1);  // counts, shifted by one
  for (int64_t i = 0; i < expert.numel(); ++i) {
    if (choices[i] < -1 || choices[i] >= num_experts) expert_fault(choices[i], num_experts);
    if (choices[i] >= 0) ++next[static_cast<size_t>(choices[i]) + 1];
  }
  for (size_t e = 1; e < next.size(); ++e) next[e] += next[e - 1];
  plan.offsets = next;
  plan.choice_R = at::empty({plan.num_rows()}, expert.options());
  plan.row_NK = at::empty(expert.sizes(), expert.options());
  int64_t *choice_of = plan.choice_R.mutable_data_ptr<int64_t>(), *row_of = plan.row_NK.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < expert.numel(); ++i) {
    row_of[i] = choices[i] < 0 ? -1 : next[static_cast<size_t>(choices[i])]++;
    if (row_of[i] >= 0) choice_of[row_of[i]] = i;
  }
  return plan;
}

ExpertPlan plan_by_sorting(const at::Tensor& expert_NK, int64_t num_experts) {
  ExpertPlan plan;
  plan.num_tokens = expert_NK.size(0), plan.num_choices = expert_NK.size(1);
  plan.offsets.assign(static_cast<size_t>(num_experts) + 1, 0);
  plan.row_NK = at::full_like(expert_NK, -1, at::MemoryFormat::Contiguous);
  plan.choice_R = at::empty({0}, expert_NK.options());
  if (expert_NK.numel() == 0) return plan;
  const at::Tensor flat = expert_NK.reshape({-1});
  // Choices that are not computed sort behind all experts. What is out of range is counted with them until it is seen.
  const at::Tensor key = at::where((flat < 0).logical_or(flat >= num_experts), num_experts, flat);
  const at::Tensor order = std::get<1>(at::sort(key, /*stable=*/true, /*dim=*/0, /*descending=*/false));
  const at::Tensor host =
      at::cat({at::bincount(key, {}, num_experts + 1), flat.min().view({1}), flat.max().view({1})}).to(at::kCPU);
  const int64_t *counts = host.const_data_ptr<int64_t>(), smallest = counts[num_experts + 1],
                largest = counts[num_experts + 2];
  if (smallest < -1) expert_fault(smallest, num_experts);
  if (largest >= num_experts) expert_fault(largest, num_experts);
  for (size_t e = 0; e + 1 < plan.offsets.size(); ++e) plan.offsets[e + 1] = plan.offsets[e] + counts[e];
  plan.choice_R = order.narrow(0, 0, plan.num_rows()).contiguous();
  plan.row_NK.view({-1}).index_copy_(0, plan.choice_R, at::arange(plan.num_rows(), expert_NK.options()));
  return plan;
}

ExpertPlan plan_experts(const at::Tensor& expert_NK, int64_t num_experts) {
  if (expert_NK.dim() != 2 || expert_NK.scalar_type() != at::kLong) {
    shape_fault("ops.plan_experts", "choices have another form",
                c10::str(expert_NK.sizes(), " ", expert_NK.scalar_type()), "int64 [N, K]");
  }
  return expert_NK.is_cpu() ? plan_by_counting(expert_NK, num_experts) : plan_by_sorting(expert_NK, num_experts);
}

}  // namespace ballast
