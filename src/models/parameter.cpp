// SPDX-License-Identifier: Apache-2.0
#include "models/parameter.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "errors/errors.h"
#include "tensor/random_stream.h"

namespace ballast {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Masters in, weight copies out; backward hands the gradients to the unit and returns nothing.
struct GatherFunction : torch::autograd::Function<GatherFunction> {
  static variable_list forward(AutogradContext* context, const UnitPtr& unit, at::TensorList /*masters*/) {
    context->saved_data["unit"] = c10::IValue::make_capsule(unit);
    context->set_materialize_grads(false);
    variable_list weights = unit->full_weights();
    variable_list frozen;
    for (size_t i = 0; i < weights.size(); ++i) {
      if (!unit->parameters()[i].is_trainable) frozen.push_back(weights[i]);
    }
    context->mark_non_differentiable(frozen);
    return weights;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto capsule = context->saved_data["unit"].toCapsule();
    auto* unit = static_cast<ParameterUnit*>(capsule.get());
    const size_t count = gradients.size();
    variable_list shards = unit->world().reduce_scatter(std::move(gradients));
    for (size_t i = 0; i < count; ++i) {
      if (shards[i].defined() && unit->parameters()[i].is_trainable) unit->add_gradient(i, std::move(shards[i]));
    }
    return variable_list(1 + count);
  }
};

/// Rows of a table; backward adds into the rows of the sink.
struct LookupFunction : torch::autograd::Function<LookupFunction> {
  static at::Tensor forward(AutogradContext* context, const UnitPtr& unit, int64_t which, const at::Tensor& index_N,
                            at::ScalarType weight_type, at::ScalarType activation_type, const at::Tensor& /*anchor*/) {
    context->saved_data["unit"] = c10::IValue::make_capsule(unit);
    context->saved_data["which"] = which;
    context->save_for_backward({index_N});
    const at::Tensor& table = unit->parameters()[static_cast<size_t>(which)].master;
    return at::index_select(table.detach(), 0, index_N).to(weight_type).to(activation_type);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto capsule = context->saved_data["unit"].toCapsule();
    auto* unit = static_cast<ParameterUnit*>(capsule.get());
    Parameter& table = unit->parameters()[static_cast<size_t>(context->saved_data["which"].toInt())];
    if (table.is_trainable) {
      if (!table.gradient.defined()) table.gradient = at::zeros_like(table.master);
      table.gradient.index_add_(0, context->get_saved_variables()[0], gradients[0].to(table.gradient.scalar_type()));
    }
    return variable_list(6);
  }
};

ParameterUnit::ParameterUnit(std::string name, const std::vector<ParameterSpec>& specs, std::vector<Buffer> buffers,
                             const Precision& precision, std::shared_ptr<const World> world, const at::Device& device)
    : name_(std::move(name)), buffers_(std::move(buffers)), precision_(precision), world_(std::move(world)) {
  for (Buffer& buffer : buffers_) buffer.value = buffer.value.to(device);
  for (const ParameterSpec& spec : specs) {
    Parameter parameter;
    parameter.spec = spec;
    parameter.master = at::zeros(spec.shape, at::device(device).dtype(precision.master));
    parameter.master.set_requires_grad(true);
    parameters_.push_back(std::move(parameter));
  }
}

std::vector<at::Tensor> ParameterUnit::full_weights() {
  // Autograd writes its marks onto the tensors a Function returns, so kept copies are handed out as fresh handles.
  const auto handles = [](const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> fresh;
    for (const at::Tensor& tensor : tensors) fresh.push_back(tensor.detach());
    return fresh;
  };
  if (!copies_.empty()) return handles(copies_);
  std::vector<at::Tensor> shards;
  Precision wide = precision_;
  wide.activation = wide.product = precision_.master;
  for (const Parameter& parameter : parameters_) {
    shards.push_back((parameter.spec.is_wide ? wide : precision_).weight_copy(parameter.master));
  }
  std::vector<at::Tensor> weights = world_->gather(shards);
  if (!keeps_copies_) return weights;
  copies_ = std::move(weights);
  return handles(copies_);
}

std::vector<at::Tensor> ParameterUnit::gather() {
  if (!at::GradMode::is_enabled()) return full_weights();
  std::vector<at::Tensor> masters;
  for (const Parameter& parameter : parameters_) masters.push_back(parameter.master);
  const at::TensorList list(masters);
  return GatherFunction::apply(UnitPtr::reclaim_copy(this), list);
}

at::Tensor ParameterUnit::lookup(size_t which, const at::Tensor& index_N, const at::Tensor& anchor) {
  return LookupFunction::apply(UnitPtr::reclaim_copy(this), static_cast<int64_t>(which), index_N, precision_.weight,
                               precision_.activation, anchor);
}

// By value: our own reference is one of the two counted below. NOLINTNEXTLINE(performance-unnecessary-value-param)
void ParameterUnit::add_gradient(size_t which, at::Tensor gradient) {
  Parameter& parameter = parameters_[which];
  if (parameter.gradient.defined()) {
    parameter.gradient.add_(gradient);
    return;
  }
  // Taken over as it is when only autograd's argument lists hold it too (the rule AccumulateGrad follows).
  const bool is_ours = gradient.use_count() <= 2 && gradient.is_contiguous() &&
                       gradient.scalar_type() == parameter.master.scalar_type() && !gradient.is_view();
  parameter.gradient = is_ours ? gradient.detach() : at::empty_like(parameter.master).copy_(gradient);
}

void ParameterUnit::drop_copies() {
  copies_.clear();
}

void ParameterUnit::clear_gradients() {
  for (Parameter& parameter : parameters_) parameter.gradient.reset();
}

namespace {

// Standard deviation of a unit normal cut at two sigmas.
constexpr double kTruncatedNormalDeviation = 0.87962566103423978;

at::Tensor initial_values(const ParameterSpec& spec, uint64_t seed, at::ScalarType type) {
  const at::TensorOptions options = at::TensorOptions().dtype(type == at::kDouble ? at::kDouble : at::kFloat);
  if (spec.initializer == Initializer::kOnes) return at::ones(spec.shape, options);
  if (spec.initializer == Initializer::kZeros) return at::zeros(spec.shape, options);
  at::Generator generator = cpu_stream(stream_key(seed, spec.name));
  const double deviation = std::sqrt(spec.init_scale / static_cast<double>(spec.shape.back()));
  at::Tensor values = at::empty(spec.shape, options);
  if (spec.initializer == Initializer::kFanInNormal) return values.normal_(0.0, deviation, generator);
  const double bound = std::erf(2.0 / std::sqrt(2.0));
  values.uniform_(-bound, bound, generator);
  return values.erfinv_().mul_(std::sqrt(2.0) * deviation / kTruncatedNormalDeviation);
}

}  // namespace

void initialize_parameters(const std::vector<UnitPtr>& units, uint64_t seed) {
  const at::NoGradGuard no_grad;
  for (const UnitPtr& unit : units) {
    for (Parameter& parameter : unit->parameters()) {
      parameter.master.copy_(initial_values(parameter.spec, seed, parameter.master.scalar_type()));
    }
    unit->drop_copies();
  }
}

}  // namespace ballast
