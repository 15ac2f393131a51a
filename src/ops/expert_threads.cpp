// SPDX-License-Identifier: Apache-2.0
// expert_ffn() on a CPU. A piece of work is an expert: its rows are gathered, multiplied and written where nobody else
// writes, by one thread, out of memory that it uses again for its next expert.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <numeric>

#include "ops/expert_kinds.h"
#include "ops/gated_parts.h"
#include "ops/kernel_arguments.h"

namespace ballast {
namespace {

using Widths = std::vector<int64_t>;  // of the rows that one expert needs at a time

/// Memory of one thread, handed out piece by piece and taken back as a whole.
class ExpertScratch {
 public:
  ExpertScratch(int64_t num_rows, const Widths& widths, const at::TensorOptions& options) {
    int64_t count = 0;
    for (const int64_t width : widths) count += aligned(num_rows * width);
    memory_ = at::empty({count}, options);
  }
  at::Tensor take(int64_t num_rows, int64_t width) {
    const int64_t begin = used_;
    used_ += aligned(num_rows * width);
    return memory_.narrow(0, begin, num_rows * width).view({num_rows, width});
  }
  void clear() { used_ = 0; }

 private:
  static int64_t aligned(int64_t count) { return (count + 31) / 32 * 32; }

  at::Tensor memory_;
  int64_t used_ = 0;
};

/// One expert and the rows it computes.
struct ExpertPiece {
  int64_t expert = 0, first = 0, num_rows = 0;

  at::Tensor rows_of(const at::Tensor& all) const { return all.narrow(0, first, num_rows); }
  at::Tensor matrix_of(const at::Tensor& all, at::ScalarType type) const { return all.select(0, expert).to(type); }
};

/// The experts with rows, most rows first.
std::vector<ExpertPiece> expert_pieces(const ExpertPlan& plan) {
  std::vector<ExpertPiece> pieces;
  for (size_t e = 0; e + 1 < plan.offsets.size(); ++e) {
    const int64_t first = plan.offsets[e], count = plan.offsets[e + 1] - first;
    if (count > 0) pieces.push_back({static_cast<int64_t>(e), first, count});
  }
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const ExpertPiece& a, const ExpertPiece& b) { return a.num_rows > b.num_rows; });
  return pieces;
}

/// Runs all pieces. One whose rows outweigh what is left for the other threads runs alone, with all threads inside its
/// products; the rest are handed out one by one.
void run_pieces(const ExpertPlan& plan, const Widths& widths, const at::TensorOptions& options,
                const std::function<void(const ExpertPiece&, ExpertScratch&)>& run) {
  const std::vector<ExpertPiece> pieces = expert_pieces(plan);
  const int64_t num_threads = at::get_num_threads();
  int64_t rows_left = plan.num_rows();
  size_t num_alone = 0;
  for (; num_alone < pieces.size() && pieces[num_alone].num_rows * num_threads > rows_left; ++num_alone) {
    rows_left -= pieces[num_alone].num_rows;
  }
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  if (num_alone > 0) {
    ExpertScratch scratch(pieces[0].num_rows, widths, options);
    for (size_t i = 0; i < num_alone; ++i, scratch.clear()) run(pieces[i], scratch);
  }
  if (num_alone == pieces.size()) return;
  std::atomic<size_t> next{num_alone};
  at::parallel_for(0, num_threads, 1, [&](int64_t, int64_t) {
    const at::AutoDispatchBelowADInplaceOrView no_autograd_here;
    ExpertScratch scratch(pieces[num_alone].num_rows, widths, options);
    for (size_t i = next++; i < pieces.size(); i = next++, scratch.clear()) run(pieces[i], scratch);
  });
}

/// Copies the tokens of a piece's rows next to one another.
void gather_rows(const at::Tensor& all_ND, const ExpertPlan& plan, const ExpertPiece& piece, const at::Tensor& to) {
  const size_t bytes = static_cast<size_t>(all_ND.size(1)) * all_ND.element_size();
  const char* from = static_cast<const char*>(all_ND.const_data_ptr());
  char* out = static_cast<char*>(to.mutable_data_ptr());
  const int64_t* choice = plan.choice_R.const_data_ptr<int64_t>() + piece.first;
  at::parallel_for(0, piece.num_rows, std::max<int64_t>(1, kKernelGrain / (to.size(1) + 1)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       const auto token = static_cast<size_t>(choice[i] / plan.num_choices);
                       std::memcpy(out + static_cast<size_t>(i) * bytes, from + token * bytes, bytes);
                     }
                   });
}

/// a b (+ bias) into `to`, through scratch where the types differ.
void multiply_into(const at::Tensor& to, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
                   ExpertScratch& scratch) {
  const bool fits = to.scalar_type() == a.scalar_type();
  at::Tensor target = fits ? to : scratch.take(to.size(0), to.size(1));
  if (bias.defined()) {
    at::addmm_out(target, bias, a, b);
  } else {
    at::mm_out(target, a, b);
  }
  if (!fits) to.copy_(target);
}

/// Rows in the type of the products: as they are, or a copy in scratch.
at::Tensor rows_as(const at::Tensor& rows, at::ScalarType type, ExpertScratch& scratch) {
  if (rows.scalar_type() == type) return rows;
  at::Tensor wide = scratch.take(rows.size(0), rows.size(1));
  wide.copy_(rows);
  return wide;
}

/// The product of gate and up rows, into `to`.
void product_into(const at::Tensor& to, const at::Tensor& gate, const at::Tensor& up, const ExpertForm& form) {
  const auto kernel = gate_kernel(form, gate);
  if (!kernel) {
    to.copy_(gated_product(gate, up, form));
    return;
  }
  with_kernel_type(gate.scalar_type(), [&]<typename T>(T) {
    at::parallel_for(0, gate.numel(), kKernelGrain, [&](int64_t begin, int64_t end) {
      gated_forward(*kernel, kernel_data<T>(gate) + begin, kernel_data<T>(up) + begin,
                    mutable_kernel_data<T>(to) + begin, end - begin);
    });
  });
}

/// What the pass over a piece's products reads and writes.
struct ProductRows {
  at::Tensor gate, up;      ///< read
  at::Tensor weight;        ///< read: routing weights of the rows
  at::Tensor d_out;         ///< read: gradient of the unweighted product; overwritten by weight * product
  at::Tensor d_gate, d_up;  ///< written: gradients of the weighted product
  at::Tensor d_weight;      ///< written: gradients of the routing weights
};

void differentiate_product(const ProductRows& rows, const ExpertForm& form) {
  const auto kernel = gate_kernel(form, rows.gate);
  if (!kernel) {
    const at::Tensor weight = rows.weight.unsqueeze(1), d_out = rows.d_out.to(rows.weight.scalar_type());
    const GatedGradients d = gated_gradients(rows.gate, rows.up, d_out * weight, form, /*makes_product=*/true);
    rows.d_gate.copy_(d.d_gate);
    rows.d_up.copy_(d.d_up);
    rows.d_weight.copy_(d_out.mul(d.product).sum(1));
    rows.d_out.copy_(d.product * weight);
    return;
  }
  const int64_t width = rows.gate.size(1);
  const float* weights = rows.weight.const_data_ptr<float>();
  float* d_weights = rows.d_weight.mutable_data_ptr<float>();
  with_kernel_type(rows.gate.scalar_type(), [&]<typename T>(T) {
    at::parallel_for(0, rows.gate.size(0), std::max<int64_t>(1, kKernelGrain / width), [&](auto begin, auto end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i * width;
        d_weights[i] =
            gated_backward_weighted(*kernel, weights[i], kernel_data<T>(rows.gate) + at, kernel_data<T>(rows.up) + at,
                                    mutable_kernel_data<T>(rows.d_out) + at, mutable_kernel_data<T>(rows.d_gate) + at,
                                    mutable_kernel_data<T>(rows.d_up) + at, width);
      }
    });
  });
}

/// A gradient for all experts, zero for those without rows; undefined where it is not needed.
at::Tensor empty_gradient(bool is_needed, const at::Tensor& like, const ExpertPlan& plan) {
  if (!is_needed) return {};
  at::Tensor gradient = at::empty(like.sizes(), like.options());
  for (int64_t e = 0; e < plan.num_experts(); ++e) {
    const auto i = static_cast<size_t>(e);
    if (plan.offsets[i] == plan.offsets[i + 1]) gradient.select(0, e).zero_();
  }
  return gradient;
}

}  // namespace

ExpertOutputs threads_forward(const ExpertOperands& in, ExpertOutputs out) {
  const ExpertWeights& weights = in.weights;
  const at::ScalarType type = in.product_type();
  const int64_t d = in.width(), f = in.expert_width(), num_rows = in.plan.num_rows();
  const bool makes_gate = !out.gate_RF.defined(), makes_up = !out.up_RF.defined(), makes_y = !out.y_ND.defined();
  if (makes_gate) out.gate_RF = at::empty({num_rows, f}, in.x_ND.options());
  if (makes_up) out.up_RF = at::empty({num_rows, f}, in.x_ND.options());
  if (!makes_gate && !makes_up && !makes_y) return out;
  const at::Tensor x_ND = makes_gate || makes_up ? in.x_ND.to(type) : at::Tensor();
  const at::Tensor gate_RF = out.gate_RF.contiguous(), up_RF = out.up_RF.contiguous();
  const at::TensorOptions options = in.x_ND.options().dtype(type);
  const at::Tensor rows_RD = makes_y ? at::empty({num_rows, d}, options) : at::Tensor();
  const auto bias_of = [&](const at::Tensor& bias, const ExpertPiece& piece) {
    return bias.defined() ? piece.matrix_of(bias, type) : bias;
  };
  const bool copies = gate_RF.scalar_type() != type;
  run_pieces(in.plan, copies ? Widths{d, f, f, f} : Widths{std::max(d, f)}, options,
             [&](const ExpertPiece& piece, ExpertScratch& scratch) {
               if (makes_gate || makes_up) {
                 const at::Tensor x = scratch.take(piece.num_rows, d);
                 gather_rows(x_ND, in.plan, piece, x);
                 const auto form = [&](const at::Tensor& to_RF, const at::Tensor& matrix_EFD,
                                       const at::Tensor& bias_EF) {
                   multiply_into(piece.rows_of(to_RF), x, piece.matrix_of(matrix_EFD, type).t(),
                                 bias_of(bias_EF, piece), scratch);
                 };
                 if (makes_gate) form(gate_RF, weights.gate_EFD, weights.gate_bias_EF);
                 if (makes_up) form(up_RF, weights.up_EFD, weights.up_bias_EF);
               }
               if (!makes_y) return;
               scratch.clear();
               const at::Tensor product = scratch.take(piece.num_rows, f);
               product_into(product, rows_as(piece.rows_of(gate_RF), type, scratch),
                            rows_as(piece.rows_of(up_RF), type, scratch), in.form);
               multiply_into(piece.rows_of(rows_RD), product, piece.matrix_of(weights.down_EDF, type).t(),
                             bias_of(weights.down_bias_ED, piece), scratch);
             });
  if (makes_y) out.y_ND = sum_choices(rows_RD, in.plan, in.weight_NK).to(in.x_ND.scalar_type());
  return out;
}

ExpertGradients threads_backward(const ExpertOperands& in, const ExpertOutputs& out, const at::Tensor& d_y,
                                 const ExpertNeeds& needs) {
  const ExpertWeights& weights = in.weights;
  const at::ScalarType type = in.product_type();
  const int64_t d = in.width(), f = in.expert_width();
  const at::TensorOptions options = in.x_ND.options().dtype(type);
  const at::Tensor x_ND = needs.gate || needs.up ? in.x_ND.to(type) : at::Tensor();
  const at::Tensor d_y_ND = d_y.contiguous().to(type), gate_RF = out.gate_RF.contiguous(),
                   up_RF = out.up_RF.contiguous();
  const at::Tensor weight_R = weights_by_row(in.weight_NK, in.plan), d_weight_R = at::empty_like(weight_R);
  const at::Tensor d_x_RD = needs.x ? at::empty({in.plan.num_rows(), d}, options) : at::Tensor();
  ExpertGradients result;
  ExpertWeights& d_weights = result.weights;
  d_weights = {empty_gradient(needs.gate, weights.gate_EFD, in.plan),
               empty_gradient(needs.up, weights.up_EFD, in.plan),
               empty_gradient(needs.down, weights.down_EDF, in.plan),
               empty_gradient(needs.gate_bias, weights.gate_bias_EF, in.plan),
               empty_gradient(needs.up_bias, weights.up_bias_EF, in.plan),
               empty_gradient(needs.down_bias, weights.down_bias_ED, in.plan)};
  const bool copies = gate_RF.scalar_type() != type;
  run_pieces(in.plan, copies ? Widths{d, f, f, f, f, f} : Widths{d, f, f, f}, options,
             [&](const ExpertPiece& piece, ExpertScratch& scratch) {
               const at::Tensor d_y_rows = scratch.take(piece.num_rows, d), weight = piece.rows_of(weight_R),
                                d_weight = piece.rows_of(d_weight_R);
               gather_rows(d_y_ND, in.plan, piece, d_y_rows);
               if (needs.down_bias) {
                 const at::Tensor wide = d_y_rows.to(weight.scalar_type());
                 d_weights.down_bias_ED.select(0, piece.expert).copy_(wide.t().mv(weight));
               }
               if (!needs.product()) return;
               const ProductRows rows{.gate = rows_as(piece.rows_of(gate_RF), type, scratch),
                                      .up = rows_as(piece.rows_of(up_RF), type, scratch),
                                      .weight = weight,
                                      .d_out = scratch.take(piece.num_rows, f),
                                      .d_gate = scratch.take(piece.num_rows, f),
                                      .d_up = scratch.take(piece.num_rows, f),
                                      .d_weight = d_weight};
               multiply_into(rows.d_out, d_y_rows, piece.matrix_of(weights.down_EDF, type), {}, scratch);
               differentiate_product(rows, in.form);
               if (needs.weight && in.has_bias()) {
                 const at::ScalarType sum_type = weight.scalar_type();
                 rows.d_weight.add_(d_y_rows.to(sum_type).mv(piece.matrix_of(weights.down_bias_ED, sum_type)));
               }
               const auto matrix_gradient = [&](const at::Tensor& d_matrix, const at::Tensor& d_rows,
                                                const at::Tensor& from) {
                 if (!d_matrix.defined()) return;
                 at::Tensor to = d_matrix.select(0, piece.expert);
                 if (to.scalar_type() == type) {
                   at::mm_out(to, d_rows.t(), from);
                 } else {
                   to.copy_(d_rows.t().mm(from));
                 }
               };
               const auto bias_gradient = [&](const at::Tensor& d_bias, const at::Tensor& d_rows) {
                 if (d_bias.defined()) d_bias.select(0, piece.expert).copy_(d_rows.sum(0, false, weight.scalar_type()));
               };
               matrix_gradient(d_weights.down_EDF, d_y_rows, rows.d_out);
               bias_gradient(d_weights.gate_bias_EF, rows.d_gate);
               bias_gradient(d_weights.up_bias_EF, rows.d_up);
               if (needs.gate || needs.up) {
                 const at::Tensor& x = d_y_rows;  // whose rows are used up
                 gather_rows(x_ND, in.plan, piece, x);
                 matrix_gradient(d_weights.gate_EFD, rows.d_gate, x);
                 matrix_gradient(d_weights.up_EFD, rows.d_up, x);
               }
               if (needs.x) {
                 at::Tensor d_x = piece.rows_of(d_x_RD);
                 at::mm_out(d_x, rows.d_gate, piece.matrix_of(weights.gate_EFD, type));
                 d_x.addmm_(rows.d_up, piece.matrix_of(weights.up_EFD, type));
               }
             });
  if (needs.x) result.x_ND = sum_choices(d_x_RD, in.plan, {});
  if (needs.weight) result.weight_NK = weights_by_choice(d_weight_R, in.plan);
  return result;
}

}  // namespace ballast
