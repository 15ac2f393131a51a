// SPDX-License-Identifier: Apache-2.0
#include "train/step.h"

#include <cmath>

#include "optim/grad_clip.h"
#include "train/activation_stats.h"

namespace ballast {

namespace {

/// The sums of a table, in one order.
std::vector<double*> sums_of(StepDivisors& divisors) {
  std::vector<double*> sums = {&divisors.loss_tokens, &divisors.mtp_tokens, &divisors.routed.tokens,
                               &divisors.routed.groups};
  for (StepDivisors::Routed& routed : divisors.mtp_routed) sums.insert(sums.end(), {&routed.tokens, &routed.groups});
  return sums;
}

}  // namespace

StepDivisors step_divisors(const std::vector<MicroBatch>& micro_batches, const DecoderSpec& spec, const World& world) {
  StepDivisors step;
  step.mtp_routed.resize(spec.mtp.layers.size());
  const std::vector<double*> places = sums_of(step);
  std::vector<double> sums(places.size(), 0.0);
  for (const MicroBatch& micro_batch : micro_batches) {
    StepDivisors own = divisors_of(micro_batch.batch, micro_batch.instances, spec);
    const std::vector<double*> values = sums_of(own);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += *values[i];
  }
  world.sum_over_data(sums);
  for (size_t i = 0; i < sums.size(); ++i) *places[i] = sums[i];
  step.micro_batches = static_cast<int64_t>(micro_batches.size()) * world.data_size();
  return step;
}

TrainStep::TrainStep(Decoder& decoder, std::shared_ptr<const World> world, const StepOptions& options)
    : decoder_(decoder),
      world_(std::move(world)),
      options_(options),
      optimizer_(make_optimizer(options.optimizer)),
      experts_(decoder) {
  if (options.spike_guard) spike_guard_.emplace(*options.spike_guard);
}

StepNumbers TrainStep::accumulate(const HostBatch& batch, int64_t step) {
  const std::vector<MicroBatch> micro_batches =
      split_batch(batch, options_.gradient_accumulation_steps, options_.micro_batch_rows, options_.split);
  const StepDivisors divisors = step_divisors(micro_batches, decoder_.spec(), *world_);
  std::vector<double> sums(4, 0.0);  // objective, cross-entropy, z-loss, prediction modules
  ActivationSums activations;
  experts_.start();
  for (const MicroBatch& micro_batch : micro_batches) {
    const BatchContextPtr context =
        make_batch_context(micro_batch.batch, micro_batch.instances, decoder_.spec(), decoder_.precision(),
                           {.seed = options_.seed, .step = step, .is_training = true}, divisors, decoder_.device());
    LayerStats stats;
    // The decoder shows each layer's output once; a second run of the block in the backward pass does not come by here.
    LayerObserver observer;
    if (options_.records_activations) {
      observer = [&](int64_t layer, const at::Tensor& stream_BTD) { add_activation_stats(stats, layer, stream_BTD); };
    }
    const DecoderLoss loss =
        decoder_.loss(decoder_.hidden_states(context, stats, observer), *context, options_.z_loss_multiplier);
    activations.add(stats);
    experts_.add(stats);
    const at::Tensor objective = loss.terms.objective();
    objective.backward();
    sums[0] += objective.item<double>();
    sums[1] += loss.ce_N.sum(at::kDouble).item<double>();
    sums[2] += loss.z_N.sum(at::kDouble).item<double>();
    sums[3] += loss.terms.value_of(kMtpLoss);
  }
  world_->sum_over_data(sums);
  experts_.sum(*world_);
  if (options_.rounds_gradients) round_gradients();
  StepNumbers numbers;
  numbers.step = step;
  numbers.loss = sums[0];
  numbers.ce_sum = sums[1];
  numbers.z_sum = sums[2];
  numbers.mtp_loss = sums[3];
  numbers.target_weight_sum = divisors.loss_tokens;
  std::vector<double> activation_sums = activations.values();
  if (options_.records_activations) world_->sum_over_data(activation_sums);
  numbers.more = activations.tagged(activation_sums, divisors.micro_batches);
  experts_.fill(numbers);
  numbers.raw_grad_norm = global_norm(trainable(&Parameter::gradient));
  numbers.learning_rate = learning_rate_at(options_.schedule, step);
  return numbers;
}

void TrainStep::round_gradients() {
  const at::NoGradGuard no_grad;
  for (const at::Tensor& gradient : trainable(&Parameter::gradient)) {
    if (gradient.defined()) gradient.copy_(gradient.to(at::kBFloat16));
  }
}

bool TrainStep::accepts(const StepNumbers& numbers) {
  if (!std::isfinite(numbers.loss) || !std::isfinite(*numbers.raw_grad_norm)) return false;
  if (!spike_guard_ || numbers.target_weight_sum == 0) return true;
  return spike_guard_->accepts(numbers.ce_sum / numbers.target_weight_sum, *numbers.raw_grad_norm);
}

void TrainStep::update(StepNumbers& numbers) {
  const at::NoGradGuard no_grad;
  const double factor = clip_factor(*numbers.raw_grad_norm, options_.gradient_clipping_threshold);
  std::vector<OptimizerSlot> slots;
  for (const UnitPtr& unit : decoder_.units()) {
    for (const Parameter& parameter : unit->parameters()) {
      if (!parameter.is_trainable) continue;
      slots.push_back({parameter.spec.name, parameter.master, parameter.gradient, parameter.decays});
    }
  }
  const double param_squares = optimizer_->step(slots, numbers.learning_rate, factor);
  for (const UnitPtr& unit : decoder_.units()) unit->drop_copies();
  if (spike_guard_) numbers.is_step_skipped = false;
  experts_.update_bias(decoder_.spec().moe.selection_bias_rate);
  if (options_.logs_bias_norms) {
    for (const auto& norm : experts_.bias_norms()) numbers.more.push_back(norm);
  }
  finish(numbers, factor, param_squares);
}

std::string TrainStep::first_bad_parameter() const {
  const at::NoGradGuard no_grad;
  for (const auto& [member, what] :
       {std::pair{&Parameter::master, " (value)"}, {&Parameter::gradient, " (gradient)"}}) {
    for (const UnitPtr& unit : decoder_.units()) {
      for (const Parameter& parameter : unit->parameters()) {
        const at::Tensor& tensor = parameter.*member;
        if (tensor.defined() && !tensor.isfinite().all().item<bool>()) return parameter.spec.name + what;
      }
    }
  }
  return {};
}

void TrainStep::skip(StepNumbers& numbers) {
  numbers.is_step_skipped = true;
  finish(numbers, clip_factor(*numbers.raw_grad_norm, options_.gradient_clipping_threshold),
         squared_norm(trainable(&Parameter::master)));
}

void TrainStep::finish(StepNumbers& numbers, double clip, double param_squares) {
  const at::NoGradGuard no_grad;
  if (std::isfinite(*numbers.raw_grad_norm)) numbers.grad_norm = *numbers.raw_grad_norm * clip;
  numbers.param_norm = std::sqrt(param_squares);
  for (const UnitPtr& unit : decoder_.units()) unit->clear_gradients();
}

std::vector<at::Tensor> TrainStep::trainable(at::Tensor Parameter::* member) const {
  std::vector<at::Tensor> tensors;
  for (const UnitPtr& unit : decoder_.units()) {
    for (const Parameter& parameter : unit->parameters()) {
      if (parameter.is_trainable) tensors.push_back(parameter.*member);
    }
  }
  return tensors;
}

}  // namespace ballast
