// SPDX-License-Identifier: Apache-2.0
// expert_ffn() on a CPU. A piece of work is an expert: its rows are gathered, multiplied and written where nobody else
// writes, by one thread, out of memory that it uses again for its next expert.
#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <functional>

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
  int64_t padded_rows = 0;  ///< rows of its products; those behind its own are 0

  at::Tensor rows_of(const at::Tensor& all) const { return all.narrow(0, first, num_rows); }
  at::Tensor own(const at::Tensor& padded) const { return padded.narrow(0, 0, num_rows); }
  at::Tensor of(const at::Tensor& all, at::ScalarType type) const {
    return all.defined() ? all.select(0, expert).to(type) : all;
  }
  at::Tensor take(ExpertScratch& scratch, int64_t width) const { return scratch.take(padded_rows, width); }
  at::Tensor take_padded(ExpertScratch& scratch, int64_t width) const {
    at::Tensor rows = take(scratch, width);
    if (padded_rows > num_rows) rows.narrow(0, num_rows, padded_rows - num_rows).zero_();
    return rows;
  }
};

/// Products of bf16 are compiled for each shape when it first occurs, which takes longer than a product of an expert.
bool compiles_products(at::ScalarType type) {
  return type == at::kBFloat16;
}

/// `num_rows`, or the next of 16 sizes an octave from 256 on and of the multiples of 16 below.
int64_t padded_size(int64_t num_rows, at::ScalarType type) {
  if (!compiles_products(type)) return num_rows;
  const auto octave = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(num_rows)));
  const int64_t step = std::max<int64_t>(16, octave / 16);
  return (num_rows + step - 1) / step * step;
}

/// The experts with rows, most rows first.
std::vector<ExpertPiece> expert_pieces(const ExpertPlan& plan, at::ScalarType type) {
  std::vector<ExpertPiece> pieces;
  for (size_t e = 0; e + 1 < plan.offsets.size(); ++e) {
    const int64_t first = plan.offsets[e], count = plan.offsets[e + 1] - first;
    if (count > 0) pieces.push_back({static_cast<int64_t>(e), first, count, padded_size(count, type)});
  }
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const ExpertPiece& a, const ExpertPiece& b) { return a.num_rows > b.num_rows; });
  return pieces;
}

/// Runs all pieces. One whose rows outweigh what is left for the other threads runs alone, with all threads inside its
/// products; the rest are handed out one by one.
void run_pieces(const ExpertPlan& plan, const Widths& widths, const at::TensorOptions& options,
                const std::function<void(const ExpertPiece&, ExpertScratch&)>& run) {
  const std::vector<ExpertPiece> pieces = expert_pieces(plan, c10::typeMetaToScalarType(options.dtype()));
  const int64_t num_threads = at::get_num_threads();
  int64_t rows_left = plan.num_rows();
  size_t num_alone = 0;
  for (; num_alone < pieces.size() && pieces[num_alone].num_rows * num_threads > rows_left; ++num_alone) {
    rows_left -= pieces[num_alone].num_rows;
  }
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  if (num_alone > 0) {
    ExpertScratch scratch(pieces[0].padded_rows, widths, options);
    for (size_t i = 0; i < num_alone; ++i, scratch.clear()) run(pieces[i], scratch);
  }
  if (num_alone == pieces.size()) return;
  std::atomic<size_t> next{num_alone};
  at::parallel_for(0, num_threads, 1, [&](int64_t, int64_t) {
    const at::AutoDispatchBelowADInplaceOrView no_autograd_here;
    ExpertScratch scratch(pieces[num_alone].padded_rows, widths, options);
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

/// a b (+ bias) into `to`, the own rows of `a`, through scratch where it is of another type or `a` is longer.
void multiply_into(at::Tensor to, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias,
                   ExpertScratch& scratch) {
  const bool fits = to.scalar_type() == a.scalar_type() && to.size(0) == a.size(0);
  at::Tensor target = fits ? to : scratch.take(a.size(0), to.size(1));
  if (bias.defined()) {
    at::addmm_out(target, bias, a, b);
  } else {
    at::mm_out(target, a, b);
  }
  if (!fits) to.copy_(target.narrow(0, 0, to.size(0)));
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

/// The forward pass of one expert after another.
struct ForwardPieces {
  const ExpertOperands& in;
  at::ScalarType type;
  bool makes_gate, makes_up;
  at::Tensor x_ND;            ///< read for gate and up, in the type of the products
  at::Tensor gate_RF, up_RF;  ///< written where made
  at::Tensor rows_RD;         ///< written if defined: what the experts return

  void operator()(const ExpertPiece& piece, ExpertScratch& scratch) const {
    const ExpertWeights& weights = in.weights;
    const auto project = [&](const at::Tensor& to, const at::Tensor& rows, const at::Tensor& matrix,
                             const at::Tensor& bias) {
      multiply_into(piece.rows_of(to), rows, piece.of(matrix, type).t(), piece.of(bias, type), scratch);
    };
    if (makes_gate || makes_up) {
      const at::Tensor x = piece.take_padded(scratch, in.width());
      gather_rows(x_ND, in.plan, piece, x);
      if (makes_gate) project(gate_RF, x, weights.gate_EFD, weights.gate_bias_EF);
      if (makes_up) project(up_RF, x, weights.up_EFD, weights.up_bias_EF);
    }
    if (!rows_RD.defined()) return;
    scratch.clear();
    const at::Tensor product = piece.take_padded(scratch, in.expert_width());
    const at::Tensor gate = rows_as(piece.rows_of(gate_RF), type, scratch);
    product_into(piece.own(product), gate, rows_as(piece.rows_of(up_RF), type, scratch), in.form);
    project(rows_RD, product, weights.down_EDF, weights.down_bias_ED);
  }
};

/// The backward pass of one expert after another.
struct BackwardPieces {
  const ExpertOperands& in;
  const ExpertNeeds& needs;
  at::ScalarType type;
  at::Tensor x_ND, d_y_ND;              ///< read, in the type of the products
  at::Tensor gate_RF, up_RF, weight_R;  ///< read
  at::Tensor d_x_RD, d_weight_R;        ///< written
  ExpertWeights d_weights;              ///< written where defined

  void operator()(const ExpertPiece& piece, ExpertScratch& scratch) const {
    const at::Tensor d_y = piece.take_padded(scratch, in.width());
    gather_rows(d_y_ND, in.plan, piece, d_y);
    if (needs.down_bias) {
      const at::Tensor weight = piece.rows_of(weight_R), wide = piece.own(d_y).to(weight.scalar_type());
      d_weights.down_bias_ED.select(0, piece.expert).copy_(wide.t().mv(weight));
    }
    if (!needs.product()) return;
    const int64_t width = in.expert_width();
    const at::Tensor d_out = piece.take(scratch, width), d_gate = piece.take_padded(scratch, width),
                     d_up = piece.take_padded(scratch, width);
    at::Tensor product_gradient = d_out;
    at::mm_out(product_gradient, d_y, piece.of(in.weights.down_EDF, type));
    differentiate_product({.gate = rows_as(piece.rows_of(gate_RF), type, scratch),
                           .up = rows_as(piece.rows_of(up_RF), type, scratch),
                           .weight = piece.rows_of(weight_R),
                           .d_out = piece.own(d_out),
                           .d_gate = piece.own(d_gate),
                           .d_up = piece.own(d_up),
                           .d_weight = piece.rows_of(d_weight_R)},
                          in.form);
    if (needs.weight && in.has_bias()) {
      const at::ScalarType sum_type = weight_R.scalar_type();
      piece.rows_of(d_weight_R).add_(piece.own(d_y).to(sum_type).mv(piece.of(in.weights.down_bias_ED, sum_type)));
    }
    matrix_gradient(d_weights.down_EDF, piece, d_y, d_out);
    bias_gradient(d_weights.gate_bias_EF, piece, d_gate);
    bias_gradient(d_weights.up_bias_EF, piece, d_up);
    if (needs.gate || needs.up) {
      const at::Tensor& x = d_y;  // whose rows are used up
      gather_rows(x_ND, in.plan, piece, x);
      matrix_gradient(d_weights.gate_EFD, piece, d_gate, x);
      matrix_gradient(d_weights.up_EFD, piece, d_up, x);
    }
    if (needs.x) {
      at::Tensor rows = piece.rows_of(d_x_RD), d_x = compiles_products(type) ? piece.take(scratch, in.width()) : rows;
      at::mm_out(d_x, d_gate, piece.of(in.weights.gate_EFD, type));
      d_x.addmm_(d_up, piece.of(in.weights.up_EFD, type));
      if (compiles_products(type)) rows.copy_(piece.own(d_x));
    }
  }

 private:
  /// a^T b, where the gradient is asked for.
  void matrix_gradient(const at::Tensor& all, const ExpertPiece& piece, const at::Tensor& a,
                       const at::Tensor& b) const {
    if (!all.defined()) return;
    at::Tensor to = all.select(0, piece.expert);
    if (to.scalar_type() == type) {
      at::mm_out(to, a.t(), b);
    } else {
      to.copy_(a.t().mm(b));
    }
  }
  void bias_gradient(const at::Tensor& all, const ExpertPiece& piece, const at::Tensor& d_rows) const {
    if (all.defined()) all.select(0, piece.expert).copy_(d_rows.sum(0, false, weight_R.scalar_type()));
  }
};

}  // namespace

ExpertOutputs threads_forward(const ExpertOperands& in, ExpertOutputs out) {
  const at::ScalarType type = in.product_type();
  const int64_t d = in.width(), f = in.expert_width(), num_rows = in.plan.num_rows();
  const bool makes_gate = !out.gate_RF.defined(), makes_up = !out.up_RF.defined(), makes_y = !out.y_ND.defined();
  if (!makes_gate && !makes_up && !makes_y) return out;
  if (makes_gate) out.gate_RF = at::empty({num_rows, f}, in.x_ND.options());
  if (makes_up) out.up_RF = at::empty({num_rows, f}, in.x_ND.options());
  const at::TensorOptions options = in.x_ND.options().dtype(type);
  const ForwardPieces forward{.in = in,
                              .type = type,
                              .makes_gate = makes_gate,
                              .makes_up = makes_up,
                              .x_ND = makes_gate || makes_up ? in.x_ND.to(type) : at::Tensor(),
                              .gate_RF = out.gate_RF.contiguous(),
                              .up_RF = out.up_RF.contiguous(),
                              .rows_RD = makes_y ? at::empty({num_rows, d}, options) : at::Tensor()};
  const bool writes_in_place = in.x_ND.scalar_type() == type && !compiles_products(type);
  run_pieces(in.plan, writes_in_place ? Widths{std::max(d, f)} : Widths{d, f, f, f}, options, forward);
  if (makes_y) out.y_ND = sum_choices(forward.rows_RD, in.plan, in.weight_NK).to(in.x_ND.scalar_type());
  return out;
}

ExpertGradients threads_backward(const ExpertOperands& in, const ExpertOutputs& out, const at::Tensor& d_y_ND,
                                 const ExpertNeeds& needs) {
  const ExpertWeights& weights = in.weights;
  const at::ScalarType type = in.product_type();
  const int64_t d = in.width(), f = in.expert_width();
  const at::TensorOptions options = in.x_ND.options().dtype(type);
  const at::Tensor weight_R = weights_by_row(in.weight_NK, in.plan);
  const BackwardPieces backward{.in = in,
                                .needs = needs,
                                .type = type,
                                .x_ND = needs.gate || needs.up ? in.x_ND.to(type) : at::Tensor(),
                                .d_y_ND = d_y_ND.contiguous().to(type),
                                .gate_RF = out.gate_RF.contiguous(),
                                .up_RF = out.up_RF.contiguous(),
                                .weight_R = weight_R,
                                .d_x_RD = needs.x ? at::empty({in.plan.num_rows(), d}, options) : at::Tensor(),
                                .d_weight_R = at::empty_like(weight_R),
                                .d_weights = {empty_gradient(needs.gate, weights.gate_EFD, in.plan),
                                              empty_gradient(needs.up, weights.up_EFD, in.plan),
                                              empty_gradient(needs.down, weights.down_EDF, in.plan),
                                              empty_gradient(needs.gate_bias, weights.gate_bias_EF, in.plan),
                                              empty_gradient(needs.up_bias, weights.up_bias_EF, in.plan),
                                              empty_gradient(needs.down_bias, weights.down_bias_ED, in.plan)}};
  Widths widths = {d, f, f, f};
  if (in.x_ND.scalar_type() != type) widths.insert(widths.end(), {f, f});  // gate and up in the type of the products
  if (compiles_products(type)) widths.push_back(d);
  run_pieces(in.plan, widths, options, backward);
  ExpertGradients result{.x_ND = {}, .weight_NK = {}, .weights = backward.d_weights};
  if (needs.x) result.x_ND = sum_choices(backward.d_x_RD, in.plan, {});
  if (needs.weight) result.weight_NK = weights_by_choice(backward.d_weight_R, in.plan);
  return result;
}

}  // namespace ballast
