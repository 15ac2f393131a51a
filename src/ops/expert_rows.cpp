// SPDX-License-Identifier: Apache-2.0
// expert_ffn() on any device: tensors over all rows, and products that know which rows belong to which expert.
#include <ATen/ATen.h>

#include "ops/expert_kinds.h"
#include "ops/gated_parts.h"

namespace ballast {
namespace {

/// Products of rows with the matrices of their experts.
class RowProducts {
 public:
  RowProducts(const ExpertPlan& plan, at::ScalarType type, bool is_grouped) : plan_(plan), type_(type) {
    if (!is_grouped) return;
    const std::vector<int> ends(plan.offsets.begin() + 1, plan.offsets.end());
    ends_E_ = at::tensor(ends, at::kInt).to(plan.choice_R.device());
  }

  /// Row by row, row times matrix: [R, O] by [E, O, I] to [R, I].
  at::Tensor times(const at::Tensor& rows_RO, const at::Tensor& matrix_EOI) const {
    const at::Tensor matrix = matrix_EOI.to(type_);
    if (ends_E_.defined()) return at::_grouped_mm(rows_RO, matrix, ends_E_);
    at::Tensor out_RI = at::empty({rows_RO.size(0), matrix.size(2)}, rows_RO.options());
    for_each([&](int64_t expert, int64_t first, int64_t count) {
      at::Tensor out = out_RI.narrow(0, first, count);
      at::mm_out(out, rows_RO.narrow(0, first, count), matrix.select(0, expert));
    });
    return out_RI;
  }

  /// [E, O, I] sums over an expert's rows of the outer products of [R, O] and [R, I]; 0 without rows.
  at::Tensor outer(const at::Tensor& a_RO, const at::Tensor& b_RI) const {
    const int64_t num_experts = plan_.num_experts();
    at::Tensor out_EOI = ends_E_.defined() ? at::_grouped_mm(a_RO.t(), b_RI, ends_E_)
                                           : at::empty({num_experts, a_RO.size(1), b_RI.size(1)}, a_RO.options());
    for (int64_t e = 0; e < num_experts; ++e) {
      if (num_rows(e) == 0) out_EOI.select(0, e).zero_();
    }
    if (ends_E_.defined()) return out_EOI;
    for_each([&](int64_t expert, int64_t first, int64_t count) {
      at::Tensor out = out_EOI.select(0, expert);
      at::mm_out(out, a_RO.narrow(0, first, count).t(), b_RI.narrow(0, first, count));
    });
    return out_EOI;
  }

  /// [E, W] sums of an expert's rows, in the type of the rows.
  at::Tensor sums(const at::Tensor& rows_RW) const {
    at::Tensor sum_EW = at::zeros({plan_.num_experts(), rows_RW.size(1)}, rows_RW.options());
    for_each([&](int64_t expert, int64_t first, int64_t count) {
      sum_EW.select(0, expert).copy_(rows_RW.narrow(0, first, count).sum(0));
    });
    return sum_EW;
  }

  /// A vector of each row's expert: [E, W] to [R, W].
  at::Tensor spread(const at::Tensor& vector_EW) const {
    at::Tensor out_RW = at::empty({plan_.num_rows(), vector_EW.size(1)}, vector_EW.options());
    for_each([&](int64_t expert, int64_t first, int64_t count) {
      out_RW.narrow(0, first, count).copy_(vector_EW.select(0, expert).unsqueeze(0));
    });
    return out_RW;
  }

 private:
  int64_t num_rows(int64_t expert) const {
    const auto e = static_cast<size_t>(expert);
    return plan_.offsets[e + 1] - plan_.offsets[e];
  }
  template <typename Run>
  void for_each(const Run& run) const {
    for (int64_t e = 0; e < plan_.num_experts(); ++e) {
      if (num_rows(e) > 0) run(e, plan_.offsets[static_cast<size_t>(e)], num_rows(e));
    }
  }

  const ExpertPlan& plan_;
  at::ScalarType type_;
  at::Tensor ends_E_;  ///< defined: grouped products
};

/// The tokens of all rows, in the type of the products.
at::Tensor gathered(const at::Tensor& all_ND, const ExpertPlan& plan, at::ScalarType type) {
  return all_ND.index_select(0, plan.choice_R.div(plan.num_choices, "floor")).to(type);
}

}  // namespace

ExpertOutputs rows_forward(const ExpertOperands& in, ExpertOutputs out, bool is_grouped) {
  const at::ScalarType type = in.product_type(), given = in.x_ND.scalar_type();
  const RowProducts products(in.plan, type, is_grouped);
  const auto project = [&](const at::Tensor& rows, const at::Tensor& matrix, const at::Tensor& bias) {
    const at::Tensor result = products.times(rows, matrix.transpose(1, 2));
    return bias.defined() ? result + products.spread(bias).to(type) : result;
  };
  if (!out.gate_RF.defined() || !out.up_RF.defined()) {
    const at::Tensor x_RD = gathered(in.x_ND, in.plan, type);
    const ExpertWeights& w = in.weights;
    if (!out.gate_RF.defined()) out.gate_RF = project(x_RD, w.gate_EFD, w.gate_bias_EF).to(given);
    if (!out.up_RF.defined()) out.up_RF = project(x_RD, w.up_EFD, w.up_bias_EF).to(given);
  }
  if (!out.y_ND.defined()) {
    const at::Tensor product_RF = gated_product(out.gate_RF.to(type), out.up_RF.to(type), in.form);
    const at::Tensor rows_RD = project(product_RF, in.weights.down_EDF, in.weights.down_bias_ED);
    out.y_ND = sum_choices(rows_RD, in.plan, in.weight_NK).to(given);
  }
  return out;
}

ExpertGradients rows_backward(const ExpertOperands& in, const ExpertOutputs& out, const at::Tensor& d_y_ND,
                              const ExpertNeeds& needs, bool is_grouped) {
  const at::ScalarType type = in.product_type(), sum_type = in.weight_NK.scalar_type();
  const RowProducts products(in.plan, type, is_grouped);
  const at::Tensor d_y_RD = gathered(d_y_ND, in.plan, type);
  const at::Tensor weight_R1 = weights_by_row(in.weight_NK, in.plan).unsqueeze(1);
  ExpertGradients result;
  ExpertWeights& d_weights = result.weights;
  if (needs.down_bias) d_weights.down_bias_ED = products.sums(d_y_RD.to(sum_type) * weight_R1);
  if (!needs.product()) return result;
  const at::Tensor d_product_RF = products.times(d_y_RD, in.weights.down_EDF).to(sum_type);
  const GatedGradients d = gated_gradients(out.gate_RF.to(type), out.up_RF.to(type),
                                           d_product_RF.mul(weight_R1).to(type), in.form, /*makes_product=*/true);
  if (needs.weight) {
    at::Tensor d_weight_R = d_product_RF.mul(d.product).sum(1);
    if (in.has_bias()) {
      d_weight_R = d_weight_R + d_y_RD.to(sum_type).mul(products.spread(in.weights.down_bias_ED).to(sum_type)).sum(1);
    }
    result.weight_NK = weights_by_choice(d_weight_R, in.plan);
  }
  if (needs.down) d_weights.down_EDF = products.outer(d_y_RD, d.product.mul(weight_R1).to(type));
  if (needs.gate || needs.up) {
    const at::Tensor x_RD = gathered(in.x_ND, in.plan, type);
    if (needs.gate) d_weights.gate_EFD = products.outer(d.d_gate, x_RD);
    if (needs.up) d_weights.up_EFD = products.outer(d.d_up, x_RD);
  }
  if (needs.gate_bias) d_weights.gate_bias_EF = products.sums(d.d_gate.to(sum_type));
  if (needs.up_bias) d_weights.up_bias_EF = products.sums(d.d_up.to(sum_type));
  if (needs.x) {
    const at::Tensor d_x_RD =
        products.times(d.d_gate, in.weights.gate_EFD).add_(products.times(d.d_up, in.weights.up_EFD));
    result.x_ND = sum_choices(d_x_RD, in.plan, {});
  }
  return result;
}

}  // namespace ballast
