// SPDX-License-Identifier: Apache-2.0
#include "models/batch_context.h"

namespace ballast {
namespace {

at::Tensor to_device(const std::vector<int32_t>& values, at::IntArrayRef shape, const at::Device& device) {
  // from_blob only borrows; the cast to int64 makes the tensor's own memory.
  at::Tensor borrowed = at::from_blob(const_cast<int32_t*>(values.data()), shape, at::kInt);
  return borrowed.to(device, at::kLong);
}

}  // namespace

BatchContextPtr make_batch_context(const HostBatch& batch, const std::vector<int64_t>& instances,
                                   const DecoderSpec& spec, const Precision& precision, const RunPosition& position,
                                   const at::Device& device) {
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
  for (const RopeSpec& rope : spec.ropes) {
    context->ropes.push_back({rope, rope_table(context->position_BT, rope, precision.activation)});
  }
  for (const LayerSpec& layer : spec.layers) {
    const int64_t window = std::get<AttentionSpec>(layer.mixer).sliding_window;
    auto& plan = context->plans[window];
    if (plan == nullptr) {
      plan = std::make_shared<const AttentionPlan>(
          make_attention_plan(batch.inputs_segmentation, batch.rows, batch.length, window));
    }
  }
  return context;
}

}  // namespace ballast
