// SPDX-License-Identifier: Apache-2.0
#include "ops/linear.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/arguments.h"
#include "ops/linear_parts.h"

namespace ballast {
namespace {

/// Tensors are all weights, then the biases that exist; `bias_places` says whose they are. Only x as it came is kept;
/// where types differ its wide copy is made again in backward.
struct LinearGroupFunction : torch::autograd::Function<LinearGroupFunction> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                                                at::TensorList tensors, const std::vector<int64_t>& bias_places,
                                                const std::vector<at::Tensor>& given) {
    const size_t count = tensors.size() - bias_places.size();
    torch::autograd::variable_list kept = {x}, biases(count), results;
    for (const at::Tensor& tensor : tensors) kept.push_back(tensor);
    for (size_t i = 0; i < bias_places.size(); ++i) biases[static_cast<size_t>(bias_places[i])] = tensors[count + i];
    context->save_for_backward(kept);
    context->saved_data["bias_places"] = bias_places;
    context->set_materialize_grads(false);
    at::Tensor wide;
    for (size_t i = 0; i < count; ++i) {
      if (i < given.size() && given[i].defined()) {
        results.push_back(fresh_handle(given[i]));
        continue;
      }
      if (!wide.defined()) wide = x.to(at::promote_types(x.scalar_type(), tensors[0].scalar_type()));
      results.push_back(linear_value(wide, tensors[i], biases[i]).to(x.scalar_type()));
    }
    return results;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const std::vector<int64_t> bias_places = context->saved_data["bias_places"].toIntVector();
    const at::Tensor& x = saved[0];
    const size_t count = gradients.size();
    const at::ScalarType type = at::promote_types(x.scalar_type(), saved[1].scalar_type());
    const at::Tensor wide = x.to(type);
    torch::autograd::variable_list rows(count), d(1 + count + bias_places.size() + 2);
    at::Tensor d_x;
    for (size_t i = 0; i < count; ++i) {
      if (!gradients[i].defined()) continue;
      const at::Tensor& weight = saved[1 + i];
      rows[i] = gradient_rows(gradients[i], weight, type);
      if (context->needs_input_grad(0)) {
        d_x = d_x.defined() ? d_x.addmm_(rows[i], weight.to(type)) : rows[i].mm(weight.to(type));
      }
      if (context->needs_input_grad(1 + i)) d[1 + i] = weight_gradient(rows[i], wide, weight);
    }
    if (d_x.defined()) d[0] = d_x.view(x.sizes()).to(x.scalar_type());
    for (size_t i = 0; i < bias_places.size(); ++i) {
      const at::Tensor& g = rows[static_cast<size_t>(bias_places[i])];
      const size_t place = 1 + count + i;
      if (g.defined() && context->needs_input_grad(place)) d[place] = g.sum(0).to(saved[place].scalar_type());
    }
    return d;
  }
};

}  // namespace

void check_linear(const std::string& where, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (weight.dim() != 2 || x.size(-1) != weight.size(1)) {
    shape_fault(where, "x does not fit the weight", c10::str("x ", x.sizes(), ", weight ", weight.sizes()),
                "[..., I] and [O, I]");
  }
  if (bias.defined() && (bias.dim() != 1 || bias.size(0) != weight.size(0))) {
    shape_fault(where, "the bias does not fit the weight", c10::str(bias.sizes()), c10::str("[", weight.size(0), "]"));
  }
}

at::Tensor linear_value(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const at::ScalarType type = at::promote_types(x.scalar_type(), weight.scalar_type());
  return at::linear(x.to(type), weight.to(type), bias.defined() ? bias.to(type) : bias).to(x.scalar_type());
}

at::Tensor gradient_rows(const at::Tensor& gradient, const at::Tensor& weight, at::ScalarType type) {
  return gradient.to(type).reshape({-1, weight.size(0)});
}

at::Tensor weight_gradient(const at::Tensor& g_NO, const at::Tensor& x, const at::Tensor& weight) {
  const at::Tensor rows_NI = x.to(g_NO.scalar_type()).reshape({-1, weight.size(1)});
  return g_NO.t().mm(rows_NI).to(weight.scalar_type());
}

std::vector<at::Tensor> linear_group(const at::Tensor& x, const std::vector<Projection>& projections,
                                     const std::vector<at::Tensor>& given) {
  std::vector<at::Tensor> tensors;
  for (const Projection& one : projections) {
    check_linear("ops.linear", x, one.weight, one.bias);
    if (one.weight.scalar_type() != projections[0].weight.scalar_type()) {
      shape_fault("ops.linear", "the weights of a group differ in type", c10::str(one.weight.scalar_type()),
                  c10::str(projections[0].weight.scalar_type()));
    }
    tensors.push_back(one.weight);
  }
  std::vector<int64_t> bias_places;
  for (size_t i = 0; i < projections.size(); ++i) {
    if (!projections[i].bias.defined()) continue;
    bias_places.push_back(static_cast<int64_t>(i));
    tensors.push_back(projections[i].bias);
  }
  const at::TensorList list(tensors);
  return LinearGroupFunction::apply(x, list, bias_places, given);
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  const std::vector<at::Tensor>& given) {
  return linear_group(x, {{weight, bias}}, given)[0];
}

}  // namespace ballast
