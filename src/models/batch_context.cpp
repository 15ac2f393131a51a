// SPDX-License-Identifier: Apache-2.0
#include "models/batch_context.h"

#include <algorithm>
#include <set>

namespace ballast {
namespace {

at::Tensor to_device(const std::vector<int32_t>& values, at::IntArrayRef shape, const at::Device& device) {
  // from_blob only borrows; the cast to int64 makes the tensor's own memory.
  at::Tensor borrowed = at::from_blob(const_cast<int32_t*>(values.data()), shape, at::kInt);
  return borrowed.to(device, at::kLong);
}

}  // namespace

StepDivisors divisors_of(const HostBatch& batch, const std::vector<int64_t>& instances, const MoeTraining& moe) {
  StepDivisors divisors;
  divisors.loss_tokens = static_cast<double>(batch.loss_tokens());
  std::set<int64_t> groups;
  for (int64_t row = 0; row < batch.rows; ++row) {
    const auto begin = batch.inputs_segmentation.begin() + row * batch.length;
    const auto num_padded = std::count(begin, begin + batch.length, 0);
    if (num_padded == batch.length) continue;
    divisors.routed_tokens += static_cast<double>(batch.length - num_padded);
    const int64_t instance = instances[static_cast<size_t>(row)];
    groups.insert(moe.groups_by_row ? row : moe.group_instances > 0 ? instance / moe.group_instances : 0);
  }
  divisors.balance_groups = static_cast<double>(groups.size());
  return divisors;
}

BatchContextPtr make_batch_context(const HostBatch& batch, const std::vector<int64_t>& instances,
                                   const DecoderSpec& spec, const Precision& precision, const RunPosition& position,
                                   const StepDivisors& divisors, const at::Device& device) {
  auto context = std::make_shared<BatchContext>();
  context->rows = batch.rows;
  context->length = batch.length;
  context->position = position;
  const int64_t tokens = batch.rows * batch.length;
  context->input_N = to_device(batch.inputs, {tokens}, device);
  context->position_BT = to_device(batch.inputs_position, {batch.rows, batch.length}, device);
  context->segment_BT = to_device(batch.inputs_segmentation, {batch.rows, batch.length}, device);
  context->target_N = to_device(batch.targets, {tokens}, device);
  context->counts_N = to_device(batch.targets_segmentation, {tokens}, device).ne(0);
  context->instance_B = at::tensor(instances, at::kLong).to(device);
  context->divisors = divisors;
  context->balance = make_balance_groups(context->segment_BT, context->instance_B, spec.moe);
  for (const RopeSpec& rope : spec.ropes) {
    context->ropes.push_back({rope, rope_table(context->position_BT, rope, precision.activation)});
  }
  for (const LayerSpec& layer : spec.layers) {
    const int64_t window = window_of(layer.mixer);
    auto& plan = context->plans[window];
    if (plan == nullptr) {
      plan = std::make_shared<const AttentionPlan>(
          make_attention_plan(batch.inputs_segmentation, batch.rows, batch.length, window));
    }
  }
  return context;
}

}  // namespace ballast
