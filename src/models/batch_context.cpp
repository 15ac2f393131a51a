// SPDX-License-Identifier: Apache-2.0
#include "models/batch_context.h"

#include <algorithm>
#include <set>

#include "data/further_tokens.h"

namespace ballast {
namespace {

at::Tensor to_device(const std::vector<int32_t>& values, at::IntArrayRef shape, const at::Device& device) {
  // from_blob only borrows; the cast to int64 makes the tensor's own memory.
  at::Tensor borrowed = at::from_blob(const_cast<int32_t*>(values.data()), shape, at::kInt);
  return borrowed.to(device, at::kLong);
}

/// What lies at the positions where `is_routed` is not 0.
StepDivisors::Routed routed_of(const HostBatch& batch, const std::vector<int32_t>& is_routed,
                               const std::vector<int64_t>& instances, const MoeTraining& moe) {
  StepDivisors::Routed routed;
  std::set<int64_t> groups;
  for (int64_t row = 0; row < batch.rows; ++row) {
    const auto begin = is_routed.begin() + row * batch.length;
    const auto num_left_out = std::count(begin, begin + batch.length, 0);
    if (num_left_out == batch.length) continue;
    routed.tokens += static_cast<double>(batch.length - num_left_out);
    const int64_t instance = instances[static_cast<size_t>(row)];
    groups.insert(moe.groups_by_row ? row : moe.group_instances > 0 ? instance / moe.group_instances : 0);
  }
  routed.groups = static_cast<double>(groups.size());
  return routed;
}

}  // namespace

StepDivisors divisors_of(const HostBatch& batch, const std::vector<int64_t>& instances, const DecoderSpec& spec) {
  StepDivisors divisors;
  divisors.loss_tokens = static_cast<double>(batch.loss_tokens());
  divisors.routed = routed_of(batch, batch.inputs_segmentation, instances, spec.moe);
  for (size_t module = 1; module <= spec.mtp.layers.size(); ++module) {
    const FurtherTokens further = further_tokens(batch, static_cast<int64_t>(module));
    divisors.mtp_tokens += static_cast<double>(std::count(further.counts.begin(), further.counts.end(), 1));
    divisors.mtp_routed.push_back(routed_of(batch, further.exists, instances, spec.moe));
  }
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
  for (size_t module = 0; module < spec.mtp.layers.size(); ++module) {
    const FurtherTokens further = further_tokens(batch, static_cast<int64_t>(module) + 1);
    auto view = std::make_shared<BatchContext>(*context);
    view->mtp.clear();
    view->input_N = to_device(further.inputs, {tokens}, device);
    view->target_N = to_device(further.targets, {tokens}, device);
    view->counts_N = to_device(further.counts, {tokens}, device).ne(0);
    view->balance = make_balance_groups(to_device(further.exists, {batch.rows, batch.length}, device),
                                        context->instance_B, spec.moe);
    view->divisors.routed = divisors.mtp_routed.at(module);
    context->mtp.push_back(std::move(view));
  }
  return context;
}

}  // namespace ballast
