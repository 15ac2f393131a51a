// SPDX-License-Identifier: Apache-2.0
#include "models/block.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace ballast
