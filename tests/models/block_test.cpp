// SPDX-License-Identifier: Apache-2.0
#include "models/block.h"

#include <gtest/gtest.h>

#include "models/dense_ffn.h"
#include "ops/rms_norm.h"
#include "support/tiny_model.h"
#include "tensor/random_stream.h"

namespace ballast {
namespace {

using testing::tiny_batch;
using testing::tiny_context;
using testing::tiny_decoder;
using testing::tiny_spec;

struct BlockRun {
  UnitPtr unit;
  std::unique_ptr<Block> block;
  BatchContextPtr batch;

  explicit BlockRun(const LayerSpec& layer) {
    DecoderSpec spec = tiny_spec();
    spec.layers = {layer};
    UnitBuilder builder("", 1.0);
    block = std::make_unique<Block>(layer, spec, 0, builder);
    unit = c10::make_intrusive<ParameterUnit>("unit", builder.specs(), builder.buffers(),
                                              testing::test_precision(at::kDouble), single_rank_world(),
                                              at::Device(at::kCPU));
    initialize_parameters({unit}, 3);
    batch = tiny_context(*tiny_decoder(spec, {}, at::kDouble), tiny_batch(2, 10));
  }

  at::Tensor operator()(const at::Tensor& x) const {
    BlockPass pass(true, false, nullptr);
    BlockContext context{.layer = 0, .batch = *batch, .pass = pass, .buffers = unit->buffers()};
    return block->forward({x}, unit->gather(), context).stream;
  }

  void zero(const std::string& part) {
    const at::NoGradGuard no_grad;
    for (Parameter& parameter : unit->parameters()) {
      if (parameter.spec.name.find(part) != std::string::npos) parameter.master.zero_();
    }
    unit->drop_copies();
  }
};

at::Tensor stream() {
  at::Generator generator = cpu_stream(1);
  return at::randn({2, 10, 16}, generator, at::kDouble);
}

// x + mixer(norm(x)) + ffn(norm(x)): the two branches do not see each other, so their deltas add up.
TEST(Block, ParallelBranchesAddUp) {
  LayerSpec layer = tiny_spec().layers[1];
  layer.is_parallel = true;
  layer.pre_ffn_norm.name.clear();
  const at::NoGradGuard no_grad;
  const at::Tensor x = stream();
  BlockRun both(layer), attention_only(layer), ffn_only(layer);
  attention_only.zero("mlp.down_proj");
  ffn_only.zero("o_proj");
  const at::Tensor attention_delta = attention_only(x) - x, ffn_delta = ffn_only(x) - x;
  EXPECT_GT(attention_delta.abs().max().item<double>(), 1e-3);
  EXPECT_LE((both(x) - x - attention_delta - ffn_delta).abs().max().item<double>(), 1e-12);
}

// In a sequential block the FFN reads the stream after attention, so the deltas do not add up.
TEST(Block, SequentialFfnSeesTheOutputOfAttention) {
  const LayerSpec layer = tiny_spec().layers[1];
  const at::NoGradGuard no_grad;
  const at::Tensor x = stream();
  BlockRun both(layer), attention_only(layer), ffn_only(layer);
  attention_only.zero("mlp.down_proj");
  ffn_only.zero("o_proj");
  const at::Tensor middle = attention_only(x);
  EXPECT_LE((both(x) - ffn_only(middle)).abs().max().item<double>(), 1e-12);
  EXPECT_GT((both(x) - middle - (ffn_only(x) - x)).abs().max().item<double>(), 1e-3);
}

// A norm after the branch makes the size of the branch's last matrix irrelevant.
TEST(Block, PostNormActsOnTheBranchBeforeTheResidual) {
  LayerSpec layer = tiny_spec().layers[1];
  layer.pre_mixer_norm.name.clear();
  layer.pre_ffn_norm.name.clear();
  layer.post_mixer_norm.name = "post_attention_layernorm";
  layer.post_ffn_norm.name = "post_feedforward_layernorm";
  layer.post_mixer_norm.epsilon = layer.post_ffn_norm.epsilon = 1e-30;
  const at::NoGradGuard no_grad;
  const at::Tensor x = stream();
  BlockRun plain(layer), scaled(layer);
  for (Parameter& parameter : scaled.unit->parameters()) {
    if (parameter.spec.name == "self_attn.o_proj.weight" || parameter.spec.name == "mlp.down_proj.weight") {
      parameter.master.mul_(37.0);
    }
  }
  scaled.unit->drop_copies();
  EXPECT_LE((plain(x) - scaled(x)).abs().max().item<double>(), 1e-12);
}

// x -> w_down * silu(min(w_gate x, c)) * clip(w_up x, -c, c) with weights 3, -4, 2 and c = 2.
TEST(DenseFfn, ClipsTheGateFromAboveAndUpOnBothSides) {
  UnitBuilder builder("", 1.0);
  const DenseFfn ffn({.mlp_dim = 1, .activation_limit = 2}, 1, builder);
  const auto batch = tiny_context(*tiny_decoder(tiny_spec()), tiny_batch(1, 2));
  BlockPass pass(true, false, nullptr);
  BlockContext context{.layer = 0, .batch = *batch, .pass = pass, .buffers = {}};
  UnitWeights weights;
  for (const double value : {3.0, -4.0, 2.0}) {
    weights.push_back(at::full({1, 1}, value, at::kDouble).set_requires_grad(true));
  }
  const at::Tensor x = at::tensor({1.0, -1.0, 0.25}, at::kDouble).view({1, 3, 1});
  const at::Tensor y = ffn.forward(x, weights, context).flatten();
  EXPECT_NEAR(y[0].item<double>(), -7.046376623823059, 1e-12);   // gate 3 -> 2, up -4 -> -2
  EXPECT_NEAR(y[1].item<double>(), -0.5691104781308014, 1e-12);  // gate -3 stays, up 4 -> 2
  EXPECT_NEAR(y[2].item<double>(), -1.0187680487630895, 1e-12);  // nothing is clipped
  y.narrow(0, 0, 2).sum().backward();
  EXPECT_EQ(weights[1].grad().item<double>(), 0.0) << "a clipped value has no slope";
  // silu'(-3) * -1 * 2 * 2
  EXPECT_NEAR(weights[0].grad().item<double>(), 0.35241642406067847, 1e-12);
}

// An RMS norm without weight is one whose weight is 1.
TEST(AttentionLayer, NormsWithoutWeightsHaveFactorOne) {
  LayerSpec layer = tiny_spec().layers[1];
  auto& attention = std::get<AttentionSpec>(layer.mixer);
  attention.qk_norm = QkNormKind::kPerHead;
  attention.q_norm.name = "q_norm";
  attention.k_norm.name = "k_norm";
  const BlockRun with(layer);
  attention.q_norm.has_weight = attention.k_norm.has_weight = false;
  const BlockRun without(layer);
  EXPECT_EQ(with.unit->parameters().size(), without.unit->parameters().size() + 2);
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(with(stream()), without(stream())));
}

}  // namespace
}  // namespace ballast
