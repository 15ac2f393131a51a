// SPDX-License-Identifier: Apache-2.0
// One decoder layer: norm, mixer, norm, feed-forward, in the arrangement its LayerSpec asks for.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "losses/layer_stats.h"
#include "models/batch_context.h"
#include "models/block_pass.h"
#include "models/unit_builder.h"
#include "spec/decoder_spec.h"

namespace ballast {

/// The residual between blocks: one stream [B, T, D] today; k streams [B, T, k, D] of hyper-connections later.
struct Residual {
  at::Tensor stream;
  at::Tensor read() const { return stream; }
  Residual plus(const at::Tensor& delta) const { return {stream + delta}; }
};

/// A loss term that a block forms itself; the tensor carries the gradient and leaves the block as an output.
struct AuxiliaryTerm {
  LayerStatKind kind = LayerStatKind::kLoadBalance;
  at::Tensor value;
};

/// What the parts of a block see beside their input.
struct BlockContext {
  int64_t layer = 0;
  const BatchContext& batch;
  BlockPass& pass;
  const std::vector<Buffer>& buffers;  ///< of the block's unit
  LayerStats* stats = nullptr;         ///< where to report, in a run that counts; else null
  std::vector<AuxiliaryTerm> terms{};
  /// Whether something that needs the value in its backward reads what the part returns. If only sums follow, a second
  /// run has no use for it.
  bool is_output_read = true;

  /// The last product of a part, [B, T, D] as its input `like`: pass.named() of one name where its value is read. Else
  /// nothing is kept and the second run hands `make` a tensor without memory in its place.
  at::Tensor output(NamedTensor name, const at::Tensor& like, const BlockPass::Maker& make);
  /// The same for tensors that are formed together, one a name, of which the last is what the part returns.
  BlockPass::Tensors outputs(const std::vector<NamedTensor>& names, const at::Tensor& like,
                             const BlockPass::Maker& make);
};

/// Token mixing part of a block: [B, T, D] to [B, T, D].
class Mixer {
 public:
  virtual ~Mixer() = default;
  virtual at::Tensor forward(const at::Tensor& x_BTD, const UnitWeights& weights, BlockContext& context) const = 0;
};

/// Feed-forward part of a block: [B, T, D] to [B, T, D].
class Ffn {
 public:
  virtual ~Ffn() = default;
  virtual at::Tensor forward(const at::Tensor& x_BTD, const UnitWeights& weights, BlockContext& context) const = 0;
  /// The terms that each forward() adds to its context, in order.
  virtual std::vector<LayerStatKind> term_kinds() const { return {}; }
  /// Place of the router's selection bias [E] among the unit's buffers; -1: there is none.
  virtual Slot selection_bias() const { return -1; }
};

std::unique_ptr<Mixer> make_mixer(const MixerSpec& spec, int64_t emb_dim, UnitBuilder& builder);
std::unique_ptr<Ffn> make_ffn(const FfnSpec& spec, const DecoderSpec& decoder, UnitBuilder& builder);

class Block {
 public:
  /// Declares its parameters in `builder`.
  Block(const LayerSpec& spec, const DecoderSpec& decoder, int64_t layer, UnitBuilder& builder);

  Residual forward(const Residual& residual, const UnitWeights& weights, BlockContext& context) const;
  int64_t layer() const { return layer_; }
  std::vector<LayerStatKind> term_kinds() const { return ffn_->term_kinds(); }
  /// As Ffn::selection_bias().
  Slot selection_bias() const { return ffn_->selection_bias(); }

 private:
  LayerSpec spec_;
  double dropout_rate_;
  int64_t layer_;
  std::unique_ptr<Mixer> mixer_;
  std::unique_ptr<Ffn> ffn_;
  Slot pre_mixer_ = -1, post_mixer_ = -1, pre_ffn_ = -1, post_ffn_ = -1;
};

}  // namespace ballast
