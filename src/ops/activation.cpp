// SPDX-License-Identifier: Apache-2.0
#include "ops/activation.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/arguments.h"
#include "ops/gated_parts.h"
#include "ops/kernel_arguments.h"
#include "ops/linear.h"
#include "ops/linear_parts.h"

namespace ballast {
namespace {

/// act(x) of a form.
at::Tensor formed_activation(const at::Tensor& x, const GatedForm& form) {
  return form.alpha == 1 ? activation(x, form.activation) : x * at::sigmoid(form.alpha * x);
}

/// gradient * act'(x) of a form.
at::Tensor activation_backward(const at::Tensor& gradient, const at::Tensor& x, const GatedForm& form) {
  switch (form.activation) {
    case Activation::kSilu:
      // d/dx (x s(a x)) = s(a x) + a x s'(a x): the derivative of silu at a x.
      return at::silu_backward(gradient, form.alpha == 1 ? x : form.alpha * x);
    case Activation::kGeluTanh:
      return at::gelu_backward(gradient, x, "tanh");
    case Activation::kGelu:
      return at::gelu_backward(gradient, x, "none");
    case Activation::kRelu:
      return at::threshold_backward(gradient, x, 0);
    case Activation::kLinear:
      return gradient;
  }
  BALLAST_CHECK(false, "unknown activation");
}

/// Gate and up as the product takes them, in the type it is computed in.
struct ProductOperands {
  ProductOperands(const at::Tensor& gate, const at::Tensor& up, const GatedForm& form) {
    const at::ScalarType type = at::toOpMathType(gate.scalar_type());
    g = gate.to(type), u = up.to(type);
    if (form.limit > 0) g = g.clamp_max(form.limit), u = u.clamp(-form.limit, form.limit);
    if (form.up_offset != 0) u = u + form.up_offset;
  }
  at::Tensor g, u;
};

struct GatedActivationFunction : torch::autograd::Function<GatedActivationFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& gate, const at::Tensor& up,
                            int64_t kind) {
    context->save_for_backward({gate, up});
    context->saved_data["kind"] = kind;
    return gated_product(gate, up, {.activation = static_cast<Activation>(kind)});
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const Activation kind = static_cast<Activation>(context->saved_data["kind"].toInt());
    const GatedGradients d =
        gated_gradients(saved[0], saved[1], gradients[0], {.activation = kind}, /*makes_product=*/false);
    return {d.d_gate, d.d_up, at::Tensor()};
  }
};

struct GatedLinearFunction : torch::autograd::Function<GatedLinearFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& gate, const at::Tensor& up,
                            const at::Tensor& weight, const std::optional<at::Tensor>& given_bias, int64_t kind,
                            double limit, const std::vector<at::Tensor>& given) {
    const at::Tensor bias = given_bias.value_or(at::Tensor());
    context->save_for_backward({gate, up, weight, bias});
    context->saved_data["kind"] = kind;
    context->saved_data["limit"] = limit;
    if (!given.empty() && given[0].defined()) return fresh_handle(given[0]);
    return linear_value(gated_product(gate, up, {.activation = static_cast<Activation>(kind), .limit = limit}), weight,
                        bias);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1], &weight = saved[2], &bias = saved[3];
    const GatedForm form{.activation = static_cast<Activation>(context->saved_data["kind"].toInt()),
                         .limit = context->saved_data["limit"].toDouble()};
    const at::ScalarType type = at::promote_types(gate.scalar_type(), weight.scalar_type());
    const at::Tensor g = gradient_rows(gradients[0], weight, type);
    const at::Tensor d_product = g.mm(weight.to(type)).view(gate.sizes()).to(gate.scalar_type());
    const GatedGradients d = gated_gradients(gate, up, d_product, form, /*makes_product=*/true);
    at::Tensor d_weight, d_bias;
    if (context->needs_input_grad(2)) d_weight = weight_gradient(g, d.product, weight);
    if (bias.defined() && context->needs_input_grad(3)) d_bias = g.sum(0).to(bias.scalar_type());
    return {d.d_gate, d.d_up, d_weight, d_bias, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

void check_gate(const std::string& where, const at::Tensor& gate, const at::Tensor& up) {
  if (gate.sizes() != up.sizes() || gate.scalar_type() != up.scalar_type()) {
    shape_fault(where, "gate and up differ", c10::str(up.sizes(), " ", up.scalar_type()),
                c10::str(gate.sizes(), " ", gate.scalar_type()));
  }
}

}  // namespace

std::optional<GateKernel> gate_kernel(const GatedForm& form, const at::Tensor& gate) {
  if (!kernels_take({gate})) return std::nullopt;
  GateKernel kernel{.alpha = static_cast<float>(form.alpha), .up_offset = static_cast<float>(form.up_offset)};
  if (form.limit > 0) kernel.limit = static_cast<float>(form.limit);
  if (form.activation == Activation::kSilu) return kernel;
  kernel.gate = SigmoidGate::kGeluTanh;
  return form.activation == Activation::kGeluTanh ? std::optional<GateKernel>(kernel) : std::nullopt;
}

at::Tensor gated_product(const at::Tensor& gate, const at::Tensor& up, const GatedForm& form) {
  const auto kernel = gate_kernel(form, gate);
  if (!kernel) {
    const ProductOperands in(gate, up, form);
    return formed_activation(in.g, form).mul(in.u).to(gate.scalar_type());
  }
  const at::Tensor g = gate.contiguous(), u = up.contiguous(), out = at::empty(g.sizes(), g.options());
  with_kernel_type(g.scalar_type(), [&]<typename T>(T) {
    at::parallel_for(0, g.numel(), kKernelGrain, [&](int64_t begin, int64_t end) {
      gated_forward(*kernel, kernel_data<T>(g) + begin, kernel_data<T>(u) + begin, mutable_kernel_data<T>(out) + begin,
                    end - begin);
    });
  });
  return out;
}

GatedGradients gated_gradients(const at::Tensor& gate, const at::Tensor& up, at::Tensor d_out, const GatedForm& form,
                               bool makes_product) {
  const auto kernel = gate_kernel(form, gate);
  if (!kernel) {
    const at::ScalarType given = gate.scalar_type();
    const ProductOperands in(gate, up, form);
    const at::Tensor d = d_out.to(in.g.scalar_type()), act = formed_activation(in.g, form);
    at::Tensor d_gate = activation_backward(d * in.u, in.g, form), d_up = act * d;
    if (form.limit > 0) {
      d_gate = d_gate.masked_fill(gate > form.limit, 0);
      d_up = d_up.masked_fill(up.abs() > form.limit, 0);
    }
    return {d_gate.to(given), d_up.to(given), makes_product ? act.mul(in.u).to(given) : at::Tensor()};
  }
  const at::Tensor g = gate.contiguous(), u = up.contiguous();
  d_out = d_out.contiguous();
  const at::Tensor d_gate = at::empty(g.sizes(), g.options()), d_up = at::empty(g.sizes(), g.options());
  with_kernel_type(g.scalar_type(), [&]<typename T>(T) {
    at::parallel_for(0, g.numel(), kKernelGrain, [&](int64_t begin, int64_t end) {
      const T *from = kernel_data<T>(g) + begin, *with = kernel_data<T>(u) + begin;
      T *to_gate = mutable_kernel_data<T>(d_gate) + begin, *to_up = mutable_kernel_data<T>(d_up) + begin;
      if (makes_product) {
        gated_backward_in_place(*kernel, from, with, mutable_kernel_data<T>(d_out) + begin, to_gate, to_up,
                                end - begin);
      } else {
        gated_backward(*kernel, from, with, kernel_data<T>(d_out) + begin, to_gate, to_up, end - begin);
      }
    });
  });
  return {d_gate, d_up, makes_product ? d_out : at::Tensor()};
}

at::Tensor activation(const at::Tensor& x, Activation kind) {
  switch (kind) {
    case Activation::kSilu:
      return at::silu(x);
    case Activation::kGeluTanh:
      return at::gelu(x, "tanh");
    case Activation::kGelu:
      return at::gelu(x, "none");
    case Activation::kRelu:
      return at::relu(x);
    case Activation::kLinear:
      return x;
  }
  BALLAST_CHECK(false, "unknown activation");
}

at::Tensor gated_activation(const at::Tensor& gate, const at::Tensor& up, Activation kind) {
  check_gate("ops.gated_activation", gate, up);
  return GatedActivationFunction::apply(gate, up, static_cast<int64_t>(kind));
}

at::Tensor gated_linear(const at::Tensor& gate, const at::Tensor& up, Activation kind, const at::Tensor& weight,
                        const at::Tensor& bias, const std::vector<at::Tensor>& given, double limit) {
  check_gate("ops.gated_linear", gate, up);
  check_linear("ops.gated_linear", gate, weight, bias);
  return GatedLinearFunction::apply(gate, up, weight, optional_of(bias), static_cast<int64_t>(kind), limit, given);
}

}  // namespace ballast
