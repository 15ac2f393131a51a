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

Decoder::Module Decoder::make_module(const DecoderSpec& spec, UnitBuilder& builder) {
  NormSpec norm = spec.final_norm;
  Module module;
  norm.name = "enorm";
  module.embedding_norm = builder.norm(norm, spec.emb_dim);
  norm.name = "hnorm";
  module.stream_norm = builder.norm(norm, spec.emb_dim);
  module.projection = builder.matrix("eh_proj", spec.emb_dim, 2 * spec.emb_dim);
  return module;
}

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
  for (size_t i = 0; i < spec_.layers.size() + spec_.mtp.layers.size(); ++i) {
    // Modules stand behind the last layer, under the names of the released DeepSeek V3.
    const std::string name = "model.layers." + std::to_string(i);
    UnitBuilder builder(name + ".", spec_.dense_init_scale);
    const bool is_module = i >= spec_.layers.size();
    if (is_module) modules_.push_back(make_module(spec_, builder));
    const LayerSpec& layer = is_module ? spec_.mtp.layers[i - spec_.layers.size()] : spec_.layers[i];
    blocks_.push_back(std::make_unique<Block>(layer, spec_, static_cast<int64_t>(i), builder));
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

at::Tensor Decoder::embed(const BatchContext& batch, int64_t place) {
  at::Tensor anchor = at::zeros({}, at::device(device_));
  if (at::GradMode::is_enabled()) anchor.set_requires_grad(true);
  const at::Tensor rows_ND = embedding_->lookup(0, batch.input_N, anchor).to(precision_.activation);
  at::Tensor stream_BTD = rows_ND.view({batch.rows, batch.length, spec_.emb_dim});
  if (spec_.embedding_scale != 1.0) {
    // The factor is rounded to the activation type before it multiplies, as the models were trained.
    stream_BTD = stream_BTD * at::scalar_tensor(spec_.embedding_scale, stream_BTD.options());
  }
  return dropout(stream_BTD, spec_.dropout_rate, batch, /*layer=*/-1, place);
}

at::Tensor Decoder::selection_bias(size_t layer) const {
  const Slot slot = blocks_[layer]->selection_bias();
  return slot < 0 ? at::Tensor() : units_[1 + layer]->buffers()[static_cast<size_t>(slot)].value;
}

at::Tensor Decoder::run_layer(size_t layer, const std::vector<at::Tensor>& inputs, const BatchContextPtr& batch,
                              LayerStats& stats, HiddenStates& hidden) {
  const Block* block = blocks_[layer].get();
  const Module* module = layer < spec_.layers.size() ? nullptr : &modules_[layer - spec_.layers.size()];
  // Captures pointers only: the body lives as long as the graph. `stats` is touched in the counting run alone.
  const auto body = [block, module, norm = &spec_.final_norm, unit = units_[1 + layer].get(), batch, sink = &stats](
                        const std::vector<at::Tensor>& streams, BlockPass& pass) {
    BlockContext context{.layer = block->layer(),
                         .batch = *batch,
                         .pass = pass,
                         .buffers = unit->buffers(),
                         .stats = pass.counts() ? sink : nullptr};
    const UnitWeights weights = unit->gather();
    at::Tensor stream = streams[0];
    if (module != nullptr) {
      const auto scaled = [&](const at::Tensor& x, Slot slot) {
        return rms_norm(x, weight_at(weights, slot), norm->form, norm->epsilon);
      };
      stream = linear(at::cat({scaled(streams[1], module->embedding_norm), scaled(stream, module->stream_norm)}, -1),
                      weight_at(weights, module->projection), at::Tensor());
    }
    std::vector<at::Tensor> outputs = {block->forward({stream}, weights, context).stream};
    for (const AuxiliaryTerm& term : context.terms) {
      if (pass.counts()) sink->add(block->layer(), term.kind, term.value);
      outputs.push_back(term.value);
    }
    return outputs;
  };
  const std::vector<at::Tensor> outputs = run_block(body, inputs, options_.rematerializes, options_.kept);
  const std::vector<LayerStatKind> kinds = block->term_kinds();
  BALLAST_CHECK(outputs.size() == 1 + kinds.size(), "a layer did not give the terms it promised");
  for (size_t term = 0; term < kinds.size(); ++term) {
    hidden.auxiliary.add(term_name(kinds[term]), outputs[1 + term]);
  }
  return outputs[0];
}

HiddenStates Decoder::hidden_states(const BatchContextPtr& batch, LayerStats& stats, const LayerObserver& observer) {
  HiddenStates hidden{.stream_BTD = embed(*batch, /*place=*/0), .further_BTD = {}, .auxiliary = {}};
  for (size_t i = 0; i < spec_.layers.size(); ++i) {
    hidden.stream_BTD = run_layer(i, {hidden.stream_BTD}, batch, stats, hidden);
    if (observer) observer(static_cast<int64_t>(i), hidden.stream_BTD);
  }
  at::Tensor stream = hidden.stream_BTD;
  for (size_t module = 0; module < modules_.size(); ++module) {
    const BatchContextPtr& view = batch->mtp[module];
    stream = run_layer(spec_.layers.size() + module, {stream, embed(*view, static_cast<int64_t>(module) + 1)}, view,
                       stats, hidden);
    hidden.further_BTD.push_back(stream);
  }
  return hidden;
}

Decoder::Head Decoder::head() {
  const std::vector<at::Tensor> weights = head_->gather();
  // Only the projection is wide: the norm rounds as any other.
  const at::Tensor norm_D = spec_.logits_dot_in_fp32 ? weights[0].to(precision_.activation) : weights[0];
  return {norm_D, spec_.is_head_tied ? embedding_->gather()[0] : weights[1]};
}

at::Tensor Decoder::normed(const at::Tensor& stream_BTD, const Head& head) const {
  return rms_norm(stream_BTD, head.norm_D, spec_.final_norm.form, spec_.final_norm.epsilon).flatten(0, 1);
}

CrossEntropyResult Decoder::cross_entropy(const at::Tensor& stream_BTD, const Head& head, const BatchContext& batch,
                                          double weight, double z_loss_multiplier) const {
  CrossEntropyOptions options;
  options.z_loss_multiplier = z_loss_multiplier;
  options.soft_cap = spec_.final_logits_soft_cap;
  options.logits_scale = spec_.logits_scale;
  options.num_vocab_tiling = options_.num_vocab_tiling;
  options.seq_major = options_.vocab_tiling_seq_major;
  options.rows = batch.rows;
  options.length = batch.length;
  const at::ScalarType type = precision_.master == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor weight_N = batch.counts_N.to(type).mul_(weight);
  return fused_cross_entropy(normed(stream_BTD, head), head.matrix_VD, batch.target_N, weight_N, options);
}

DecoderLoss Decoder::loss(const HiddenStates& hidden, const BatchContext& batch, double z_loss_multiplier) {
  const Head head = this->head();
  CrossEntropyResult result =
      cross_entropy(hidden.stream_BTD, head, batch, batch.divisors.per_loss_token(), z_loss_multiplier);
  DecoderLoss loss;
  loss.terms.add("lm_loss", std::move(result.loss));
  for (const LossTerm& term : hidden.auxiliary.terms()) loss.terms.add(term.name, term.share);
  for (size_t module = 0; module < hidden.further_BTD.size(); ++module) {
    const double weight = spec_.mtp.loss_weight * batch.divisors.per_mtp_token();
    loss.terms.add(kMtpLoss, cross_entropy(hidden.further_BTD[module], head, *batch.mtp[module], weight, 0).loss);
  }
  loss.ce_N = std::move(result.ce_N);
  loss.z_N = std::move(result.z_N);
  return loss;
}

Acceptance Decoder::acceptance(const HiddenStates& hidden, const BatchContext& batch) {
  if (spec_.mtp.eval_module == 0) return {};
  const at::NoGradGuard no_grad;
  const Head head = this->head();
  const BatchContext& view = *batch.mtp[static_cast<size_t>(spec_.mtp.eval_module) - 1];
  const auto guesses = [&](const at::Tensor& stream_BTD) {
    constexpr int64_t kTile = 1024;  // logits of this many tokens exist at once
    std::vector<at::Tensor> tiles;
    for (const at::Tensor& tile : normed(stream_BTD, head).split(kTile)) {
      tiles.push_back(linear(tile, head.matrix_VD, at::Tensor()).argmax(-1));
    }
    return at::cat(tiles);
  };
  // What the main model says at t + j stands beside what the module says at t.
  const at::Tensor main_N = guesses(hidden.stream_BTD).roll(-spec_.mtp.eval_module);
  const at::Tensor own_N = guesses(hidden.further_BTD[static_cast<size_t>(spec_.mtp.eval_module) - 1]);
  return {main_N.eq(own_N).logical_and(view.counts_N).sum().item<double>(), view.counts_N.sum().item<double>()};
}

at::Tensor Decoder::logits(const at::Tensor& hidden_BTD) {
  const at::NoGradGuard no_grad;
  const Head head = this->head();
  const at::Tensor normed_ND = normed(hidden_BTD, head);
  const at::Tensor input_ND = spec_.logits_dot_in_fp32 ? normed_ND.to(head.matrix_VD.scalar_type()) : normed_ND;
  at::Tensor logits_NV = linear(input_ND, head.matrix_VD, at::Tensor()).to(at::kFloat).mul_(spec_.logits_scale);
  if (spec_.final_logits_soft_cap > 0) {
    logits_NV.div_(spec_.final_logits_soft_cap).tanh_().mul_(spec_.final_logits_soft_cap);
  }
  return logits_NV.view({hidden_BTD.size(0), hidden_BTD.size(1), spec_.vocab_size});
}

}  // namespace ballast
