// SPDX-License-Identifier: Apache-2.0
#include "ops/activation.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/activation_kernel.h"
#include "ops/arguments.h"
#include "ops/kernel_arguments.h"
#include "ops/linear.h"
#include "ops/linear_parts.h"

namespace ballast {
namespace {

/// gradient * act'(x).
at::Tensor activation_backward(const at::Tensor& gradient, const at::Tensor& x, Activation kind) {
  switch (kind) {
    case Activation::kSilu:
      return at::silu_backward(gradient, x);
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

/// The kernel's name of an activation that has one.
std::optional<SigmoidGate> gate_kernel(Activation kind, const at::Tensor& gate) {
  if (!kernels_take({gate})) return std::nullopt;
  if (kind == Activation::kSilu) return SigmoidGate::kSilu;
  if (kind == Activation::kGeluTanh) return SigmoidGate::kGeluTanh;
  return std::nullopt;
}

/// act(gate) * up.
at::Tensor gated_product(const at::Tensor& gate, const at::Tensor& up, Activation kind) {
  const auto kernel = gate_kernel(kind, gate);
  if (!kernel) {
    const at::ScalarType type = at::toOpMathType(gate.scalar_type());
    return activation(gate.to(type), kind).mul(up.to(type)).to(gate.scalar_type());
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

struct GatedGradients {
  at::Tensor d_gate, d_up;
  at::Tensor product;  ///< act(gate) * up, where asked for
};

/// Gradients of the gated product. With `makes_product` the product is made too, in the memory of d_out where the
/// kernel runs.
GatedGradients gated_gradients(const at::Tensor& gate, const at::Tensor& up, at::Tensor d_out, Activation kind,
                               bool makes_product) {
  const auto kernel = gate_kernel(kind, gate);
  if (!kernel) {
    const at::ScalarType given = gate.scalar_type(), type = at::toOpMathType(given);
    const at::Tensor g = gate.to(type), u = up.to(type), d = d_out.to(type), act = activation(g, kind);
    return {activation_backward(d * u, g, kind).to(given), act.mul(d).to(given),
            makes_product ? act.mul(u).to(given) : at::Tensor()};
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

struct GatedActivationFunction : torch::autograd::Function<GatedActivationFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& gate, const at::Tensor& up,
                            int64_t kind) {
    context->save_for_backward({gate, up});
    context->saved_data["kind"] = kind;
    return gated_product(gate, up, static_cast<Activation>(kind));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const Activation kind = static_cast<Activation>(context->saved_data["kind"].toInt());
    const GatedGradients d = gated_gradients(saved[0], saved[1], gradients[0], kind, /*makes_product=*/false);
    return {d.d_gate, d.d_up, at::Tensor()};
  }
};

struct GatedLinearFunction : torch::autograd::Function<GatedLinearFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& gate, const at::Tensor& up,
                            const at::Tensor& weight, const std::optional<at::Tensor>& given_bias, int64_t kind,
                            const std::vector<at::Tensor>& given) {
    const at::Tensor bias = given_bias.value_or(at::Tensor());
    context->save_for_backward({gate, up, weight, bias});
    context->saved_data["kind"] = kind;
    if (!given.empty() && given[0].defined()) return fresh_handle(given[0]);
    return linear_value(gated_product(gate, up, static_cast<Activation>(kind)), weight, bias);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1], &weight = saved[2], &bias = saved[3];
    const Activation kind = static_cast<Activation>(context->saved_data["kind"].toInt());
    const at::ScalarType type = at::promote_types(gate.scalar_type(), weight.scalar_type());
    const at::Tensor g = gradient_rows(gradients[0], weight, type);
    const at::Tensor d_product = g.mm(weight.to(type)).view(gate.sizes()).to(gate.scalar_type());
    const GatedGradients d = gated_gradients(gate, up, d_product, kind, /*makes_product=*/true);
    at::Tensor d_weight, d_bias;
    if (context->needs_input_grad(2)) d_weight = weight_gradient(g, d.product, weight);
    if (bias.defined() && context->needs_input_grad(3)) d_bias = g.sum(0).to(bias.scalar_type());
    return {d.d_gate, d.d_up, d_weight, d_bias, at::Tensor(), at::Tensor()};
  }
};

void check_gate(const std::string& where, const at::Tensor& gate, const at::Tensor& up) {
  if (gate.sizes() != up.sizes() || gate.scalar_type() != up.scalar_type()) {
    shape_fault(where, "gate and up differ", c10::str(up.sizes(), " ", up.scalar_type()),
                c10::str(gate.sizes(), " ", gate.scalar_type()));
  }
}

}  // namespace

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
                        const at::Tensor& bias, const std::vector<at::Tensor>& given) {
  check_gate("ops.gated_linear", gate, up);
  check_linear("ops.gated_linear", gate, weight, bias);
  return GatedLinearFunction::apply(gate, up, weight, optional_of(bias), static_cast<int64_t>(kind), given);
}

}  // namespace ballast
