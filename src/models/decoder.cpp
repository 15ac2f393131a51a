// SPDX-License-Identifier: Apache-2.0
#include "models/decoder.h"

#include "errors/errors.h"
#include "models/dropout.h"
#include "ops/cross_entropy.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"

namespace ballast {
namespace {

std::string term_name(LayerStatKind kind) {
  return kind == LayerStatKind::kLoadBalance ? "moe_lb_loss" : "router_z_loss";
}

}  // namespace

Decoder::Decoder(DecoderSpec spec, const Precision& precision, std::shared_ptr<const World> world,
                 const at::Device& device, const DecoderOptions& options)
    : spec_(std::move(spec)), precision_(precision), device_(device), options_(options) {
  const auto make_unit = [&](std::string name, const std::vector<ParameterSpec>& parameters,
                             const std::vector<Buffer>& buffers, const Precision& unit_precision) {
    units_.push_back(
        c10::make_intrusive<ParameterUnit>(std::move(name), parameters, buffers, unit_precision, world, device));
    return units_.back();
  };
  Precision head_precision = precision;
  if (spec_.logits_dot_in_fp32) head_precision.activation = head_precision.product = precision.master;
  UnitBuilder embedding("model.", 1.0);
  embedding.add("embed_tokens.weight", {spec_.vocab_size, spec_.emb_dim}, Initializer::kFanInNormal);
  embedding_ = make_unit("model.embed_tokens", embedding.specs(), {}, spec_.is_head_tied ? head_precision : precision);
  for (size_t i = 0; i < spec_.layers.size(); ++i) {
    const std::string name = "model.layers." + std::to_string(i);
    UnitBuilder builder(name + ".", spec_.dense_init_scale);
    blocks_.push_back(std::make_unique<Block>(spec_.layers[i], spec_, static_cast<int64_t>(i), builder));
    make_unit(name, builder.specs(), builder.buffers(), precision);
  }
  UnitBuilder norm("model.", 1.0);
  norm.norm(spec_.final_norm, spec_.emb_dim);
  UnitBuilder matrix("", spec_.dense_init_scale);
  if (!spec_.is_head_tied) matrix.matrix("lm_head", spec_.vocab_size, spec_.emb_dim);
  std::vector<ParameterSpec> head = norm.specs();
  head.insert(head.end(), matrix.specs().begin(), matrix.specs().end());
  head_ = make_unit("head", head, {}, head_precision);
}

std::vector<WeightTensor> stored_tensors(const ParameterUnit& unit) {
  std::vector<WeightTensor> tensors;
  for (const Parameter& parameter : unit.parameters()) {
    tensors.push_back({parameter.spec.name, parameter.master.detach()});
  }
  for (const Buffer& buffer : unit.buffers()) tensors.push_back({buffer.name, buffer.value});
  return tensors;
}

std::vector<WeightTensor> Decoder::stored_tensors() const {
  std::vector<WeightTensor> tensors;
  for (const UnitPtr& unit : units_) {
    for (WeightTensor& tensor : ballast::stored_tensors(*unit)) tensors.push_back(std::move(tensor));
  }
  return tensors;
}

at::Tensor Decoder::embed(const BatchContext& batch) {
  at::Tensor anchor = at::zeros({}, at::device(device_));
  if (at::GradMode::is_enabled()) anchor.set_requires_grad(true);
  const at::Tensor rows_ND = embedding_->lookup(0, batch.input_N, anchor).to(precision_.activation);
  at::Tensor stream_BTD = rows_ND.view({batch.rows, batch.length, spec_.emb_dim});
  if (spec_.embedding_scale != 1.0) {
    // The factor is rounded to the activation type before it multiplies, as the models were trained.
    stream_BTD = stream_BTD * at::scalar_tensor(spec_.embedding_scale, stream_BTD.options());
  }
  return dropout(stream_BTD, spec_.dropout_rate, batch, /*layer=*/-1, /*place=*/0);
}

at::Tensor Decoder::selection_bias(size_t layer) const {
  const Slot slot = blocks_[layer]->selection_bias();
  return slot < 0 ? at::Tensor() : units_[1 + layer]->buffers()[static_cast<size_t>(slot)].value;
}

HiddenStates Decoder::hidden_states(const BatchContextPtr& batch, LayerStats& stats, const LayerObserver& observer) {
  HiddenStates hidden{.stream_BTD = embed(*batch), .auxiliary = {}};
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block* block = blocks_[i].get();
    const UnitPtr& unit = units_[1 + i];
    // Captures pointers only: the body lives as long as the graph. `stats` is touched in the counting run alone.
    const auto body = [block, unit = unit.get(), batch, sink = &stats](const std::vector<at::Tensor>& inputs,
                                                                       BlockPass& pass) {
      BlockContext context{.layer = block->layer(),
                           .batch = *batch,
                           .pass = pass,
                           .buffers = unit->buffers(),
                           .stats = pass.counts() ? sink : nullptr};
      std::vector<at::Tensor> outputs = {block->forward({inputs[0]}, unit->gather(), context).stream};
      for (const AuxiliaryTerm& term : context.terms) {
        if (pass.counts()) sink->add(block->layer(), term.kind, term.value);
        outputs.push_back(term.value);
      }
      return outputs;
    };
    const std::vector<at::Tensor> outputs =
        run_block(body, {hidden.stream_BTD}, options_.rematerializes, options_.kept);
    const std::vector<LayerStatKind> kinds = block->term_kinds();
    BALLAST_CHECK(outputs.size() == 1 + kinds.size(), "a layer did not give the terms it promised");
    hidden.stream_BTD = outputs[0];
    for (size_t term = 0; term < kinds.size(); ++term) {
      hidden.auxiliary.add(term_name(kinds[term]), outputs[1 + term]);
    }
    if (observer) observer(static_cast<int64_t>(i), hidden.stream_BTD);
  }
  return hidden;
}

std::pair<at::Tensor, at::Tensor> Decoder::head_inputs(const at::Tensor& hidden_BTD) {
  const std::vector<at::Tensor> weights = head_->gather();
  // Only the projection is wide: the norm rounds as any other.
  const at::Tensor norm = spec_.logits_dot_in_fp32 ? weights[0].to(precision_.activation) : weights[0];
  const at::Tensor normed_BTD = rms_norm(hidden_BTD, norm, spec_.final_norm.form, spec_.final_norm.epsilon);
  const at::Tensor head_VD = spec_.is_head_tied ? embedding_->gather()[0] : weights[1];
  return {normed_BTD.flatten(0, 1), head_VD};
}

DecoderLoss Decoder::loss(const HiddenStates& hidden, const BatchContext& batch, double z_loss_multiplier) {
  const auto [normed_ND, head_VD] = head_inputs(hidden.stream_BTD);
  CrossEntropyOptions options;
  options.z_loss_multiplier = z_loss_multiplier;
  options.soft_cap = spec_.final_logits_soft_cap;
  options.logits_scale = spec_.logits_scale;
  options.num_vocab_tiling = options_.num_vocab_tiling;
  options.seq_major = options_.vocab_tiling_seq_major;
  options.rows = batch.rows;
  options.length = batch.length;
  const at::ScalarType type = precision_.master == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor weight_N = batch.counts_N.to(type).mul_(batch.divisors.per_loss_token());
  CrossEntropyResult result = fused_cross_entropy(normed_ND, head_VD, batch.target_N, weight_N, options);
  DecoderLoss loss;
  loss.terms.add("lm_loss", std::move(result.loss));
  for (const LossTerm& term : hidden.auxiliary.terms()) loss.terms.add(term.name, term.share);
  loss.ce_N = std::move(result.ce_N);
  loss.z_N = std::move(result.z_N);
  return loss;
}

at::Tensor Decoder::logits(const at::Tensor& hidden_BTD) {
  const at::NoGradGuard no_grad;
  const auto [normed_ND, head_VD] = head_inputs(hidden_BTD);
  const at::Tensor input_ND = spec_.logits_dot_in_fp32 ? normed_ND.to(head_VD.scalar_type()) : normed_ND;
  at::Tensor logits_NV = linear(input_ND, head_VD, at::Tensor()).to(at::kFloat).mul_(spec_.logits_scale);
  if (spec_.final_logits_soft_cap > 0) {
    logits_NV.div_(spec_.final_logits_soft_cap).tanh_().mul_(spec_.final_logits_soft_cap);
  }
  return logits_NV.view({hidden_BTD.size(0), hidden_BTD.size(1), spec_.vocab_size});
}

}  // namespace ballast
