// SPDX-License-Identifier: Apache-2.0
// The ways to compute expert_ffn() and its plan behind their one interface. Each gives the same numbers; tests compare
// them.
//
// Shape letters: as in expert_ffn.h; O and I rows and columns of a matrix.
#pragma once

#include "ops/expert_ffn.h"

namespace ballast {

enum class ExpertKind {
  kThreads,  ///< CPU: an expert's work from the first gather to the last product as one piece, experts side by side
  kLoop,     ///< any device: tensors over all rows, a product an expert
  kGrouped,  ///< any device with bf16 of suitable widths: tensors over all rows, one grouped product for all experts
};

/// The kind that expert_ffn() takes for these operands.
ExpertKind choose_experts(const at::Tensor& x_ND, const ExpertWeights& weights);

/// expert_ffn() by a given kind.
ExpertOutputs expert_ffn_by(ExpertKind kind, const at::Tensor& x_ND, const at::Tensor& weight_NK,
                            const ExpertPlan& plan, const ExpertWeights& weights, const ExpertForm& form,
                            const ExpertOutputs& given);

/// plan_experts() by a loop on the host, and by a stable sort where the tensor is.
ExpertPlan plan_by_counting(const at::Tensor& expert_NK, int64_t num_experts);
ExpertPlan plan_by_sorting(const at::Tensor& expert_NK, int64_t num_experts);

/// What a layer computes with. x is contiguous; the routing weights are in the type sums are formed in.
struct ExpertOperands {
  at::Tensor x_ND, weight_NK;
  ExpertPlan plan;
  ExpertWeights weights;
  ExpertForm form;

  /// The type of all products: the wider one of x and the weights.
  at::ScalarType product_type() const;
  int64_t width() const { return x_ND.size(1); }
  int64_t expert_width() const { return weights.gate_EFD.size(1); }
  bool has_bias() const { return weights.gate_bias_EF.defined(); }
};

/// Which gradients are asked for.
struct ExpertNeeds {
  bool x = false, weight = false, gate = false, up = false, down = false;
  bool gate_bias = false, up_bias = false, down_bias = false;

  /// Whether anything before the product needs a gradient.
  bool inputs() const { return x || gate || up || gate_bias || up_bias; }
  bool product() const { return inputs() || weight || down; }
};

struct ExpertGradients {
  at::Tensor x_ND, weight_NK;
  ExpertWeights weights;
};

/// Forward with gate, up and y formed where they are not given.
ExpertOutputs threads_forward(const ExpertOperands& in, ExpertOutputs given);
ExpertOutputs rows_forward(const ExpertOperands& in, ExpertOutputs given, bool is_grouped);

/// Gradients that are asked for; `out` holds gate and up.
ExpertGradients threads_backward(const ExpertOperands& in, const ExpertOutputs& out, const at::Tensor& d_y_ND,
                                 const ExpertNeeds& needs);
ExpertGradients rows_backward(const ExpertOperands& in, const ExpertOutputs& out, const at::Tensor& d_y_ND,
                              const ExpertNeeds& needs, bool is_grouped);

/// [N, D] sums over a token's computed choices, slot by slot, of weight * row, formed in the type of the routing
/// weights, in the type of the rows. Undefined weights: 1.
at::Tensor sum_choices(const at::Tensor& rows_RD, const ExpertPlan& plan, const at::Tensor& weight_NK);

/// Routing weights by row [R], and from rows back to [N, K] with 0 where a choice is not computed.
at::Tensor weights_by_row(const at::Tensor& weight_NK, const ExpertPlan& plan);
at::Tensor weights_by_choice(const at::Tensor& weight_R, const ExpertPlan& plan);

}  // namespace ballast
