// SPDX-License-Identifier: Apache-2.0
#include "models/moe_ffn.h"

#include <gtest/gtest.h>

#include "support/tiny_model.h"

namespace ballast {
namespace {

using testing::relative_gap;
using testing::tiny_batch;
using testing::tiny_context;
using testing::tiny_decoder;
using testing::tiny_moe_spec;
using testing::tiny_spec;

MoeFfnSpec experts_of(int64_t num_experts, int64_t num_chosen) {
  MoeFfnSpec experts;
  experts.router = {.num_experts = num_experts, .num_experts_per_tok = num_chosen};
  experts.mlp_dim = 24;
  return experts;
}

DecoderSpec spec_with(const MoeFfnSpec& experts) {
  DecoderSpec spec = tiny_spec();
  for (LayerSpec& layer : spec.layers) layer.ffn = experts;
  return spec;
}

Parameter& parameter_of(Decoder& decoder, const std::string& name) {
  for (const UnitPtr& unit : decoder.units()) {
    for (Parameter& parameter : unit->parameters()) {
      if (parameter.spec.name == name) return parameter;
    }
  }
  throw std::runtime_error(name);
}

double loss_of(Decoder& decoder, const HostBatch& batch) {
  LayerStats stats;
  const BatchContextPtr context = tiny_context(decoder, batch);
  const at::Tensor objective = decoder.loss(decoder.hidden_states(context, stats), *context, 0).terms.objective();
  if (objective.requires_grad()) objective.backward();
  return objective.item<double>();
}

// A single expert has the weight 1, so it is the dense layer of the same matrices: loss and gradients are its.
TEST(MoeFfn, OneExpertIsADenseLayer) {
  const auto routed = tiny_decoder(spec_with(experts_of(1, 1)), {}, at::kDouble);
  const auto dense = tiny_decoder(tiny_spec(), {}, at::kDouble);
  {
    const at::NoGradGuard no_grad;
    for (const UnitPtr& unit : dense->units()) {
      for (Parameter& parameter : unit->parameters()) {
        std::string name = parameter.spec.name;
        const size_t place = name.find("mlp.");
        if (place != std::string::npos) name.insert(place + 4, "experts.");
        parameter.master.copy_(parameter_of(*routed, name).master.view_as(parameter.master));
      }
      unit->drop_copies();
    }
  }
  const HostBatch batch = tiny_batch(3, 12);
  EXPECT_NEAR(loss_of(*routed, batch), loss_of(*dense, batch), 1e-13);
  const at::Tensor gradient = parameter_of(*routed, "model.layers.0.mlp.experts.up_proj.weight").gradient[0];
  EXPECT_LE(relative_gap(gradient, parameter_of(*dense, "model.layers.0.mlp.up_proj.weight").gradient), 1e-12);
}

// Everything a layer can have, against the formula in plain tensor operations: a latent width, biases, a shared expert
// with its gate, clipped activations, all experts chosen.
TEST(MoeFfn, EqualsItsFormula) {
  MoeFfnSpec experts = experts_of(3, 3);
  experts.router.score = RouterScore::kSigmoid;
  experts.router.scaling_factor = 2.0;
  experts.router.has_bias = experts.has_bias = experts.has_shared_gate = true;
  experts.latent_dim = 8;
  experts.shared_dim = 6;
  experts.activation_limit = 0.3;
  experts.activation_alpha = 1.7;
  experts.up_offset = 1.0;
  DecoderSpec spec = spec_with(experts);
  UnitBuilder builder("x.", 1.0);
  const MoeFfn ffn(experts, spec, builder);
  std::map<std::string, at::Tensor> named;
  UnitWeights weights;
  for (const ParameterSpec& parameter : builder.specs()) {
    const auto generator = at::detail::createCPUGenerator(weights.size() + 1);
    weights.push_back(at::randn(parameter.shape, generator, at::TensorOptions().dtype(at::kDouble)) * 0.5);
    named[parameter.name.substr(2)] = weights.back();
  }
  const auto decoder = tiny_decoder(spec, {}, at::kDouble);
  const BatchContextPtr batch = tiny_context(*decoder, tiny_batch(1, 6));
  BlockPass pass(/*counts=*/false, /*replays=*/false, nullptr);
  const std::vector<Buffer> buffers;
  BlockContext context{.layer = 0, .batch = *batch, .pass = pass, .buffers = buffers};
  const at::Tensor x = at::randn({1, 6, 16}, at::detail::createCPUGenerator(9), at::TensorOptions().dtype(at::kDouble));
  const at::Tensor got = ffn.forward(x, weights, context)[0];

  const auto times = [&](const at::Tensor& rows, const std::string& name) { return rows.mm(named.at(name).t()); };
  const at::Tensor rows = x[0], latent = times(rows, "mlp.latent_down_proj.weight");
  const at::Tensor s = at::sigmoid(times(rows, "mlp.gate.weight") + named.at("mlp.gate.bias"));
  at::Tensor sum = at::zeros({6, 8}, at::kDouble);
  for (int64_t e = 0; e < 3; ++e) {
    const auto part = [&](const std::string& name, const at::Tensor& in) {
      return in.mm(named.at("mlp.experts." + name + ".weight")[e].t()) + named.at("mlp.experts." + name + ".bias")[e];
    };
    const at::Tensor gate = part("gate_proj", latent).clamp_max(0.3);
    const at::Tensor up = part("up_proj", latent).clamp(-0.3, 0.3);
    const at::Tensor out = part("down_proj", gate * at::sigmoid(1.7 * gate) * (up + 1));
    sum = sum + 2 * (s.select(1, e) / s.sum(1)).unsqueeze(1) * out;
  }
  const at::Tensor shared_gate = times(rows, "mlp.shared_experts.gate_proj.weight").clamp_max(0.3);
  const at::Tensor shared_up = times(rows, "mlp.shared_experts.up_proj.weight").clamp(-0.3, 0.3);
  const at::Tensor shared = times(at::silu(shared_gate) * shared_up, "mlp.shared_experts.down_proj.weight");
  const at::Tensor expected =
      times(sum, "mlp.latent_up_proj.weight") + at::sigmoid(times(rows, "mlp.shared_expert_gate.weight")) * shared;
  EXPECT_LE(relative_gap(got, expected), 1e-12);
}

// A capacity that is never reached drops nothing: the same loss to the last bit.
TEST(MoeFfn, CapacityThatSufficesChangesNothing) {
  DecoderSpec spec = tiny_moe_spec();
  const HostBatch batch = tiny_batch(3, 12);
  const double dropless = loss_of(*tiny_decoder(spec), batch);
  spec.moe.capacity_factor = 5;  // experts: each may take all tokens of a row
  EXPECT_EQ(loss_of(*tiny_decoder(spec), batch), dropless);
  spec.moe.capacity_factor = 0.5;
  EXPECT_NE(loss_of(*tiny_decoder(spec), batch), dropless);
}

// One token, and rows of nothing but padding.
TEST(MoeFfn, TakesOneTokenAndNone) {
  const auto decoder = tiny_decoder(tiny_moe_spec());
  EXPECT_TRUE(std::isfinite(loss_of(*decoder, tiny_batch(1, 2))));
  HostBatch padding = tiny_batch(2, 4);
  for (auto* array : {&padding.inputs_segmentation, &padding.targets_segmentation}) {
    std::fill(array->begin(), array->end(), 0);
  }
  EXPECT_EQ(loss_of(*decoder, padding), 0);
}

TEST(MoeFfn, RouterReadsFp32WhateverTheActivationsAre) {
  const Precision narrow{.activation = at::kBFloat16, .weight = at::kFloat, .product = at::kBFloat16};
  Decoder decoder(tiny_moe_spec(), narrow, single_rank_world(), at::Device(at::kCPU), {});
  initialize_parameters(decoder.units(), 7);
  const UnitPtr& unit = decoder.units()[1];
  const UnitWeights weights = unit->gather();
  for (size_t i = 0; i < weights.size(); ++i) {
    const Parameter& parameter = unit->parameters()[i];
    const bool is_router = parameter.spec.name.ends_with("mlp.gate.weight");
    EXPECT_EQ(weights[i].scalar_type(), is_router ? at::kFloat : at::kBFloat16) << parameter.spec.name;
    if (is_router) {
      EXPECT_TRUE(at::equal(weights[i], parameter.master));
    }
  }
}

}  // namespace
}  // namespace ballast
