// SPDX-License-Identifier: Apache-2.0
#include "ops/expert_ffn.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/arguments.h"
#include "ops/expert_kernel.h"
#include "ops/expert_kinds.h"
#include "ops/kernel_arguments.h"

namespace ballast {
namespace {

/// The order of tensors among the arguments of the function and in what it saves.
enum ExpertPlace : size_t { kX, kRouting, kGate, kUp, kDown, kGateBias, kUpBias, kDownBias, kNumExpertInputs };

struct ExpertFunction : torch::autograd::Function<ExpertFunction> {
  using Biases = std::vector<at::Tensor>;

  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const at::Tensor& x_ND,
                                                const at::Tensor& weight_NK, const at::Tensor& gate_EFD,
                                                const at::Tensor& up_EFD, const at::Tensor& down_EDF,
                                                const std::optional<at::Tensor>& gate_bias_EF,
                                                const std::optional<at::Tensor>& up_bias_EF,
                                                const std::optional<at::Tensor>& down_bias_ED, const ExpertPlan& plan,
                                                const ExpertForm& form, ExpertKind kind, const ExpertOutputs& given) {
    const auto bias = [](const std::optional<at::Tensor>& tensor) { return tensor.value_or(at::Tensor()); };
    const ExpertWeights weights{gate_EFD, up_EFD, down_EDF, bias(gate_bias_EF), bias(up_bias_EF), bias(down_bias_ED)};
    ExpertOutputs out;
    if (given.gate_RF.defined()) out.gate_RF = fresh_handle(given.gate_RF);
    if (given.up_RF.defined()) out.up_RF = fresh_handle(given.up_RF);
    if (given.y_ND.defined()) out.y_ND = fresh_handle(given.y_ND);
    const ExpertOperands in = operands(x_ND, weight_NK, plan, weights, form);
    out = kind == ExpertKind::kThreads ? threads_forward(in, out) : rows_forward(in, out, kind == ExpertKind::kGrouped);
    context->save_for_backward({x_ND, weight_NK, gate_EFD, up_EFD, down_EDF, weights.gate_bias_EF, weights.up_bias_EF,
                                weights.down_bias_ED, out.gate_RF, out.up_RF, plan.choice_R, plan.row_NK});
    context->saved_data["offsets"] = plan.offsets;
    context->saved_data["form"] = std::vector<double>{form.limit, form.alpha, form.up_offset};
    context->saved_data["activation"] = static_cast<int64_t>(form.activation);
    context->saved_data["kind"] = static_cast<int64_t>(kind);
    context->mark_non_differentiable({out.gate_RF, out.up_RF});
    context->set_materialize_grads(false);
    return {out.gate_RF, out.up_RF, out.y_ND};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    torch::autograd::variable_list d(kNumExpertInputs + 4);
    if (!gradients[2].defined()) return d;
    const torch::autograd::variable_list saved = context->get_saved_variables();
    ExpertPlan plan{.num_tokens = saved[kX].size(0),
                    .num_choices = saved[kRouting].size(1),
                    .offsets = context->saved_data["offsets"].toIntVector(),
                    .choice_R = saved[kNumExpertInputs + 2],
                    .row_NK = saved[kNumExpertInputs + 3]};
    const std::vector<double> numbers = context->saved_data["form"].toDoubleVector();
    const ExpertForm form{.activation = static_cast<Activation>(context->saved_data["activation"].toInt()),
                          .limit = numbers[0],
                          .alpha = numbers[1],
                          .up_offset = numbers[2]};
    const auto kind = static_cast<ExpertKind>(context->saved_data["kind"].toInt());
    const auto needs = [&](ExpertPlace place) { return saved[place].defined() && context->needs_input_grad(place); };
    const ExpertNeeds needed{needs(kX),    needs(kRouting),  needs(kGate),   needs(kUp),
                             needs(kDown), needs(kGateBias), needs(kUpBias), needs(kDownBias)};
    const ExpertOperands in =
        operands(saved[kX], saved[kRouting], std::move(plan),
                 {saved[kGate], saved[kUp], saved[kDown], saved[kGateBias], saved[kUpBias], saved[kDownBias]}, form);
    const ExpertOutputs out{saved[kNumExpertInputs], saved[kNumExpertInputs + 1], {}};
    const ExpertGradients result = kind == ExpertKind::kThreads
                                       ? threads_backward(in, out, gradients[2], needed)
                                       : rows_backward(in, out, gradients[2], needed, kind == ExpertKind::kGrouped);
    const ExpertWeights& of = result.weights;
    const at::Tensor tensors[] = {result.x_ND, result.weight_NK, of.gate_EFD,   of.up_EFD,
                                  of.down_EDF, of.gate_bias_EF,  of.up_bias_EF, of.down_bias_ED};
    for (size_t i = 0; i < kNumExpertInputs; ++i) {
      if (tensors[i].defined()) d[i] = tensors[i].to(saved[i].scalar_type());
    }
    return d;
  }

 private:
  static ExpertOperands operands(const at::Tensor& x_ND, const at::Tensor& weight_NK, ExpertPlan plan,
                                 const ExpertWeights& weights, const ExpertForm& form) {
    const auto bare = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.detach() : tensor; };
    ExpertOperands in{x_ND.detach().contiguous(), {}, std::move(plan), {}, form};
    in.weights = {bare(weights.gate_EFD),     bare(weights.up_EFD),     bare(weights.down_EDF),
                  bare(weights.gate_bias_EF), bare(weights.up_bias_EF), bare(weights.down_bias_ED)};
    in.weight_NK = weight_NK.detach().to(at::toOpMathType(in.product_type())).contiguous();
    return in;
  }
};

void check_shape(const char* name, const at::Tensor& tensor, at::IntArrayRef need) {
  if (tensor.defined() && tensor.sizes() == need) return;
  shape_fault("ops.expert_ffn", c10::str(name, " has another shape"),
              tensor.defined() ? c10::str(tensor.sizes()) : "none", c10::str(need));
}

void check_experts(const at::Tensor& x_ND, const at::Tensor& weight_NK, const ExpertPlan& plan,
                   const ExpertWeights& weights, const ExpertOutputs& given) {
  const ExpertWeights& w = weights;
  if (x_ND.dim() != 2 || w.gate_EFD.dim() != 3) {
    shape_fault("ops.expert_ffn", "x or gate has another rank", c10::str(x_ND.sizes(), " and ", w.gate_EFD.sizes()),
                "[N, D] and [E, F, D]");
  }
  const int64_t num_tokens = x_ND.size(0), d = x_ND.size(1), f = w.gate_EFD.size(1), e = plan.num_experts();
  check_shape("the plan", plan.row_NK, {num_tokens, plan.num_choices});
  check_shape("weight", weight_NK, {num_tokens, plan.num_choices});
  check_shape("gate", w.gate_EFD, {e, f, d});
  check_shape("up", w.up_EFD, {e, f, d});
  check_shape("down", w.down_EDF, {e, d, f});
  if (w.gate_bias_EF.defined() || w.up_bias_EF.defined() || w.down_bias_ED.defined()) {
    check_shape("the bias of gate", w.gate_bias_EF, {e, f});
    check_shape("the bias of up", w.up_bias_EF, {e, f});
    check_shape("the bias of down", w.down_bias_ED, {e, d});
  }
  for (const at::Tensor& tensor : {w.up_EFD, w.down_EDF, w.gate_bias_EF, w.up_bias_EF, w.down_bias_ED}) {
    if (!tensor.defined() || tensor.scalar_type() == w.gate_EFD.scalar_type()) continue;
    shape_fault("ops.expert_ffn", "the weights differ in type", c10::str(tensor.scalar_type()),
                c10::str(w.gate_EFD.scalar_type()));
  }
  if (given.gate_RF.defined()) check_shape("a given gate", given.gate_RF, {plan.num_rows(), f});
  if (given.up_RF.defined()) check_shape("a given up", given.up_RF, {plan.num_rows(), f});
  if (given.y_ND.defined()) check_shape("a given y", given.y_ND, {num_tokens, d});
}

}  // namespace

at::ScalarType ExpertOperands::product_type() const {
  return at::promote_types(x_ND.scalar_type(), weights.gate_EFD.scalar_type());
}

at::Tensor sum_choices(const at::Tensor& rows_RD, const ExpertPlan& plan, const at::Tensor& weight_NK) {
  const int64_t width = rows_RD.size(1);
  if (!kernels_take({rows_RD})) {
    const at::ScalarType type = at::toOpMathType(rows_RD.scalar_type());
    at::Tensor sum_ND = at::zeros({plan.num_tokens, width}, rows_RD.options().dtype(type));
    for (int64_t k = 0; k < plan.num_choices && plan.num_rows() > 0; ++k) {
      const at::Tensor row_N = plan.row_NK.select(1, k);
      at::Tensor picked_ND = rows_RD.index_select(0, row_N.clamp_min(0)).to(type);
      if (weight_NK.defined()) picked_ND = picked_ND * weight_NK.select(1, k).unsqueeze(1);
      sum_ND.add_(picked_ND.masked_fill((row_N < 0).unsqueeze(1), 0));
    }
    return sum_ND.to(rows_RD.scalar_type());
  }
  const at::Tensor out_ND = at::empty({plan.num_tokens, width}, rows_RD.options());
  const int64_t* rows = plan.row_NK.const_data_ptr<int64_t>();
  const float* weights = weight_NK.defined() ? weight_NK.const_data_ptr<float>() : nullptr;
  const int64_t num_choices = plan.num_choices;
  with_kernel_type(rows_RD.scalar_type(), [&]<typename T>(T) {
    at::parallel_for(0, plan.num_tokens, std::max<int64_t>(1, kKernelGrain / (width + 1)), [&](auto begin, auto end) {
      for (int64_t n = begin; n < end; ++n) {
        sum_token_rows(
            {rows + n * num_choices, weights == nullptr ? nullptr : weights + n * num_choices, num_choices, width},
            kernel_data<T>(rows_RD), mutable_kernel_data<T>(out_ND) + n * width);
      }
    });
  });
  return out_ND;
}

at::Tensor weights_by_row(const at::Tensor& weight_NK, const ExpertPlan& plan) {
  return weight_NK.reshape({-1}).index_select(0, plan.choice_R);
}

at::Tensor weights_by_choice(const at::Tensor& weight_R, const ExpertPlan& plan) {
  at::Tensor weight_NK = at::zeros({plan.num_tokens, plan.num_choices}, weight_R.options());
  weight_NK.view({-1}).index_copy_(0, plan.choice_R, weight_R);
  return weight_NK;
}

ExpertKind choose_experts(const at::Tensor& x_ND, const ExpertWeights& weights) {
  if (x_ND.is_cpu()) return ExpertKind::kThreads;
  // The grouped product of CUDA takes bf16 whose rows begin on 16 bytes.
  const bool fits = x_ND.is_cuda() && x_ND.scalar_type() == at::kBFloat16 &&
                    weights.gate_EFD.scalar_type() == at::kBFloat16 && x_ND.size(1) % 8 == 0 &&
                    weights.gate_EFD.size(1) % 8 == 0;
  return fits ? ExpertKind::kGrouped : ExpertKind::kLoop;
}

ExpertOutputs expert_ffn_by(ExpertKind kind, const at::Tensor& x_ND, const at::Tensor& weight_NK,
                            const ExpertPlan& plan, const ExpertWeights& weights, const ExpertForm& form,
                            const ExpertOutputs& given) {
  const auto out = ExpertFunction::apply(x_ND, weight_NK, weights.gate_EFD, weights.up_EFD, weights.down_EDF,
                                         optional_of(weights.gate_bias_EF), optional_of(weights.up_bias_EF),
                                         optional_of(weights.down_bias_ED), plan, form, kind, given);
  return {out[0], out[1], out[2]};
}

ExpertOutputs expert_ffn(const at::Tensor& x_ND, const at::Tensor& weight_NK, const ExpertPlan& plan,
                         const ExpertWeights& weights, const ExpertForm& form, const ExpertOutputs& given) {
  check_experts(x_ND, weight_NK, plan, weights, given);
  return expert_ffn_by(choose_experts(x_ND, weights), x_ND, weight_NK, plan, weights, form, given);
}

}  // namespace ballast
