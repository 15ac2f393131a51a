// SPDX-License-Identifier: Apache-2.0
// Which experts each token goes to, with what weights, and what that says about balance.
#pragma once

#include "models/block.h"
#include "spec/decoder_spec.h"

namespace ballast {

/// The decision for N tokens.
struct Routing {
  at::Tensor expert_NK;  ///< int64, falling score; -1 for padding and for choices dropped over capacity
  at::Tensor weight_NK;  ///< fp32
};

/// mlp.gate: logits in fp32 whatever `dtype` is, scores, choice, weights. Hands out the counts of choices and the
/// layer's auxiliary terms. The selection bias is a buffer: it shifts the choice and has no gradient.
class Router {
 public:
  Router(const RouterSpec& spec, const MoeTraining& moe, int64_t num_moe_layers, int64_t emb_dim, UnitBuilder& builder);

  Routing route(const at::Tensor& x_ND, const UnitWeights& weights, BlockContext& context) const;

  std::vector<LayerStatKind> term_kinds() const;
  /// Place of the selection bias among the unit's buffers; -1: there is none.
  Slot selection_bias() const { return selection_bias_; }

 private:
  /// Scores by which experts are chosen, with the selection bias.
  at::Tensor selection(const at::Tensor& logits_NE, const BlockContext& context) const;
  void add_terms(const at::Tensor& logits_NE, const at::Tensor& counts_GE, BlockContext& context) const;
  /// Probabilities over all experts that the balance loss looks at.
  at::Tensor balance_probabilities(const at::Tensor& logits_NE, const BlockContext& context) const;

  RouterSpec spec_;
  MoeTraining moe_;
  double layer_share_ = 1;  ///< of this layer's losses in the step's: 1, or 1 over the number of layers with experts
  Slot weight_ = -1, bias_ = -1, selection_bias_ = -1;
};

}  // namespace ballast
