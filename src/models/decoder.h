// SPDX-License-Identifier: Apache-2.0
// The decoder of every family: embedding, blocks, final norm and the fused head.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "losses/layer_stats.h"
#include "losses/loss_terms.h"
#include "models/batch_context.h"
#include "models/block.h"
#include "models/parameter.h"
#include "ops/cross_entropy.h"
#include "spec/decoder_spec.h"

namespace ballast {

/// Choices that change memory and speed but no number.
struct DecoderOptions {
  bool rematerializes = false;  ///< a block keeps its inputs, and what `kept` names, and is run again
  int64_t num_vocab_tiling = 1;
  bool vocab_tiling_seq_major = false;
  NamedTensors kept{};
};

/// Called with each layer's number and the residual stream after it, [B, T, D].
using LayerObserver = std::function<void(int64_t layer, const at::Tensor& stream_BTD)>;

/// A tensor under its name on disk.
struct WeightTensor {
  std::string name;
  at::Tensor tensor;
};

/// What the layers make of a micro-batch.
struct HiddenStates {
  at::Tensor stream_BTD;                ///< residual stream after the last layer, before the final norm
  std::vector<at::Tensor> further_BTD;  ///< the stream that each prediction module left, in their order
  LossTerms auxiliary;                  ///< terms of the objective that layers formed: moe_lb_loss, router_z_loss
};

/// The name of the prediction modules' term: weight * (sum of their cross-entropies) / (number of their targets).
inline constexpr const char* kMtpLoss = "mtp_loss";

/// Tokens that a prediction module foretold as the main model then did, and those it could have.
struct Acceptance {
  double accepted = 0;
  double predicted = 0;
};

/// What weight files hold of a unit: masters, then buffers. The memory is the unit's.
std::vector<WeightTensor> stored_tensors(const ParameterUnit& unit);

/// The loss of one micro-batch.
struct DecoderLoss {
  LossTerms terms;
  at::Tensor ce_N;  ///< cross-entropy of each token, 0 where it does not count
  at::Tensor z_N;   ///< z-loss of each token
};

class Decoder {
 public:
  Decoder(DecoderSpec spec, const Precision& precision, std::shared_ptr<const World> world, const at::Device& device,
          const DecoderOptions& options);

  const DecoderSpec& spec() const { return spec_; }
  const Precision& precision() const { return precision_; }
  const at::Device& device() const { return device_; }
  /// Embedding, one unit a layer, head: all parameters, each once.
  const std::vector<UnitPtr>& units() const { return units_; }
  /// stored_tensors() of all units. The memory is the decoder's: after writing into it call drop_copies() of the units.
  std::vector<WeightTensor> stored_tensors() const;

  /// Agreement of module `spec().mtp.eval_module` with the main model on the targets of this micro-batch; zeros if it
  /// is 0. @source DeepSeek-V3 report, section 5.4.3
  Acceptance acceptance(const HiddenStates& hidden, const BatchContext& batch);

  /// The router's selection bias [E] of a layer or, behind the last one, of a prediction module, undefined where it has
  /// none. The memory is the decoder's.
  at::Tensor selection_bias(size_t layer) const;

  HiddenStates hidden_states(const BatchContextPtr& batch, LayerStats& stats, const LayerObserver& observer = {});

  /// Cross-entropy and z-loss of the counted tokens, each divided by the step's divisor, and what the layers added.
  /// Under grad mode the terms carry gradients to the units' sinks; call backward() on terms.objective(). Without grad
  /// mode nothing is kept.
  DecoderLoss loss(const HiddenStates& hidden, const BatchContext& batch, double z_loss_multiplier);

  /// All logits, [B, T, V] fp32: for probes of small models only; training never makes this tensor.
  at::Tensor logits(const at::Tensor& hidden_BTD);

 private:
  /// What a prediction module has in front of its block.
  struct Module {
    Slot embedding_norm = -1, stream_norm = -1, projection = -1;
  };
  static Module make_module(const DecoderSpec& spec, UnitBuilder& builder);
  /// @param place  0: the input of the first layer; j: of module j
  at::Tensor embed(const BatchContext& batch, int64_t place);
  /// Runs a layer, or a module with the embedding of its tokens as a second input; terms go to `hidden`.
  at::Tensor run_layer(size_t layer, const std::vector<at::Tensor>& inputs, const BatchContextPtr& batch,
                       LayerStats& stats, HiddenStates& hidden);
  /// Weight of the final norm and the head matrix [V, D].
  struct Head {
    at::Tensor norm_D, matrix_VD;
  };
  Head head();
  /// The final norm of a stream as rows.
  at::Tensor normed(const at::Tensor& stream_BTD, const Head& head) const;
  /// Cross-entropy of a stream's counted tokens, each times `weight`.
  CrossEntropyResult cross_entropy(const at::Tensor& stream_BTD, const Head& head, const BatchContext& batch,
                                   double weight, double z_loss_multiplier) const;

  DecoderSpec spec_;
  Precision precision_;
  at::Device device_;
  DecoderOptions options_;
  std::vector<std::unique_ptr<Block>> blocks_;  // of layers, then of modules
  std::vector<Module> modules_;
  std::vector<UnitPtr> units_;
  UnitPtr embedding_, head_;
};

}  // namespace ballast
