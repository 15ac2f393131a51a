// SPDX-License-Identifier: Apache-2.0
#include "models/block.h"

#include "models/attention_layer.h"
#include "models/dense_ffn.h"
#include "models/dropout.h"
#include "models/mla_layer.h"
#include "models/moe_ffn.h"
#include "ops/rms_norm.h"

namespace ballast {
namespace {

at::Tensor normalized(const at::Tensor& x, const NormSpec& norm, const UnitWeights& weights, Slot slot) {
  return norm.exists() ? rms_norm(x, weight_at(weights, slot), norm.form, norm.epsilon) : x;
}

}  // namespace

at::Tensor BlockContext::output(NamedTensor name, const at::Tensor& like, const BlockPass::Maker& make) {
  return outputs({name}, like, make)[0];
}

BlockPass::Tensors BlockContext::outputs(const std::vector<NamedTensor>& names, const at::Tensor& like,
                                         const BlockPass::Maker& make) {
  if (is_output_read) return pass.named(names, make);
  at::Tensor output;
  const auto make_inner = [&](const BlockPass::Tensors& given) {
    BlockPass::Tensors all = given;
    all.resize(names.size());
    if (pass.replays()) all.back() = at::zeros({}, like.options()).expand_as(like);
    BlockPass::Tensors made = make(all);
    output = std::move(made.back());
    made.pop_back();
    return made;
  };
  BlockPass::Tensors made = pass.named({names.begin(), names.end() - 1}, make_inner);
  made.push_back(std::move(output));
  return made;
}

std::unique_ptr<Mixer> make_mixer(const MixerSpec& spec, int64_t emb_dim, UnitBuilder& builder) {
  if (const auto* latent = std::get_if<MlaSpec>(&spec)) return std::make_unique<MlaLayer>(*latent, emb_dim, builder);
  return std::make_unique<AttentionLayer>(std::get<AttentionSpec>(spec), emb_dim, builder);
}

std::unique_ptr<Ffn> make_ffn(const FfnSpec& spec, const DecoderSpec& decoder, UnitBuilder& builder) {
  if (const auto* experts = std::get_if<MoeFfnSpec>(&spec)) return std::make_unique<MoeFfn>(*experts, decoder, builder);
  return std::make_unique<DenseFfn>(std::get<DenseFfnSpec>(spec), decoder.emb_dim, builder);
}

Block::Block(const LayerSpec& spec, const DecoderSpec& decoder, int64_t layer, UnitBuilder& builder)
    : spec_(spec), dropout_rate_(decoder.dropout_rate), layer_(layer) {
  const int64_t emb_dim = decoder.emb_dim;
  pre_mixer_ = builder.norm(spec.pre_mixer_norm, emb_dim);
  mixer_ = make_mixer(spec.mixer, emb_dim, builder);
  post_mixer_ = builder.norm(spec.post_mixer_norm, emb_dim);
  pre_ffn_ = builder.norm(spec.pre_ffn_norm, emb_dim);
  ffn_ = make_ffn(spec.ffn, decoder, builder);
  post_ffn_ = builder.norm(spec.post_ffn_norm, emb_dim);
}

Residual Block::forward(const Residual& residual, const UnitWeights& weights, BlockContext& context) const {
  const at::Tensor normed = normalized(residual.read(), spec_.pre_mixer_norm, weights, pre_mixer_);
  context.is_output_read = !spec_.is_parallel || spec_.post_mixer_norm.exists();
  const at::Tensor mixed = mixer_->forward(normed, weights, context);
  const Residual middle = residual.plus(dropout(normalized(mixed, spec_.post_mixer_norm, weights, post_mixer_),
                                                dropout_rate_, context.batch, layer_, /*place=*/0));
  const at::Tensor ffn_input =
      spec_.is_parallel ? normed : normalized(middle.read(), spec_.pre_ffn_norm, weights, pre_ffn_);
  context.is_output_read = spec_.post_ffn_norm.exists();
  const at::Tensor fed = ffn_->forward(ffn_input, weights, context);
  return middle.plus(dropout(normalized(fed, spec_.post_ffn_norm, weights, post_ffn_), dropout_rate_, context.batch,
                             layer_, /*place=*/1));
}

}  // namespace ballast
