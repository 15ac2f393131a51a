// SPDX-License-Identifier: Apache-2.0
// Latent attention against its definition written out in fp64, and against finite differences.
#include "models/mla_layer.h"

#include <gtest/gtest.h>

#include "ops/gradcheck.h"
#include "ops/peak_memory.h"
#include "ops/rope.h"
#include "support/tiny_model.h"

namespace ballast {
namespace {

using testing::test_precision;
using testing::tiny_batch;
using testing::tiny_context;
using testing::tiny_decoder;
using testing::tiny_mla_spec;

struct MlaCase {
  std::string name;
  int64_t q_rank = 7;
  bool has_bias = false, is_interleaved = true, has_rope = true;
};

std::vector<MlaCase> mla_cases() {
  return {{.name = "latent queries"},
          {.name = "latent queries, biases", .has_bias = true},
          {.name = "plain queries", .q_rank = 0},
          {.name = "plain queries, biases, halves", .q_rank = 0, .has_bias = true, .is_interleaved = false},
          {.name = "no rotation", .has_rope = false}};
}

/// One layer with its weights by name, on two packed and padded rows.
struct MlaRun {
  DecoderSpec spec;
  MlaSpec mla;
  UnitBuilder builder{"", 1.0};
  std::unique_ptr<MlaLayer> layer;
  BatchContextPtr batch;
  std::vector<at::Tensor> weights;

  explicit MlaRun(const MlaCase& c, at::ScalarType type = at::kDouble) : spec(tiny_mla_spec()) {
    auto& first = std::get<MlaSpec>(spec.layers[0].mixer);
    first.q_rank = c.q_rank;
    if (c.q_rank == 0) first.q_norm = {};
    first.has_bias = c.has_bias;
    if (!c.has_rope) first.rope = -1;
    spec.ropes[0].is_interleaved = c.is_interleaved;
    mla = first;
    layer = std::make_unique<MlaLayer>(mla, spec.emb_dim, builder);
    batch = tiny_context(*tiny_decoder(spec, {}, type), tiny_batch(2, 8));
    for (size_t i = 0; i < builder.specs().size(); ++i) {
      weights.push_back(normal(builder.specs()[i].shape, 40 + i, type) * 0.4);
    }
  }

  at::Tensor forward(const at::Tensor& x, const std::vector<at::Tensor>& values) const {
    BlockPass pass(/*counts=*/false, /*replays=*/false, nullptr);
    const std::vector<Buffer> buffers;
    BlockContext context{.layer = 0, .batch = *batch, .pass = pass, .buffers = buffers};
    return layer->forward(x, values, context);
  }

  at::Tensor weight(const std::string& name) const {
    for (size_t i = 0; i < builder.specs().size(); ++i) {
      if (builder.specs()[i].name == "self_attn." + name) return weights[i];
    }
    return {};
  }

  at::Tensor projected(const at::Tensor& x, const std::string& name) const {
    const at::Tensor bias = weight(name + ".bias");
    const at::Tensor y = at::matmul(x, weight(name + ".weight").t());
    return bias.defined() ? y + bias : y;
  }
  at::Tensor normed(const at::Tensor& x, const std::string& name) const {
    return x / (x.square().mean(-1, true) + 1e-5).sqrt() * weight(name + ".weight");
  }
  at::Tensor turned(const at::Tensor& x_BTHR) const {
    return mla.rope < 0 ? x_BTHR : apply_rope(x_BTHR, batch->ropes[0].table, batch->ropes[0].spec);
  }

  /// The definition, a table of scores and all.
  at::Tensor expected(const at::Tensor& x) const {
    const int64_t H = mla.num_heads, N = mla.nope_dim, R = mla.rope_dim, W = mla.value_head_dim;
    const at::Tensor q = (mla.q_rank == 0 ? projected(x, "q_proj")
                                          : projected(normed(projected(x, "q_a_proj"), "q_a_layernorm"), "q_b_proj"))
                             .unflatten(2, {H, N + R});
    const at::Tensor latent = projected(x, "kv_a_proj_with_mqa");
    const at::Tensor kv =
        projected(normed(latent.narrow(2, 0, mla.kv_rank), "kv_a_layernorm"), "kv_b_proj").unflatten(2, {H, N + W});
    const at::Tensor shared = turned(latent.narrow(2, mla.kv_rank, R).unsqueeze(2)).squeeze(2);
    const at::Tensor own = at::einsum("bthn,bshn->bhts", {q.narrow(3, 0, N), kv.narrow(3, 0, N)});
    const at::Tensor common = at::einsum("bthr,bsr->bhts", {turned(q.narrow(3, N, R)), shared});
    const at::Tensor segment = batch->segment_BT, T = at::arange(x.size(1));
    const at::Tensor sees =
        (segment.unsqueeze(2) == segment.unsqueeze(1)).logical_and(T.unsqueeze(1) >= T.unsqueeze(0)).unsqueeze(1);
    const at::Tensor scores = ((own + common) * mla.scale).masked_fill(sees.logical_not(), -1e300);
    const at::Tensor mixed = at::einsum("bhts,bshw->bthw", {at::softmax(scores, -1), kv.narrow(3, N, W)});
    return projected(mixed.flatten(2).masked_fill((segment == 0).unsqueeze(2), 0), "o_proj");
  }
};

TEST(MlaLayer, IsItsDefinition) {
  for (const MlaCase& c : mla_cases()) {
    const MlaRun run(c);
    const at::Tensor x = normal({2, 8, 16}, 5);
    EXPECT_LE(relative_error(run.forward(x, run.weights), run.expected(x)), 1e-12) << c.name;
  }
}

TEST(MlaLayer, GradientsMatchFiniteDifferences) {
  for (const MlaCase& c : mla_cases()) {
    const MlaRun run(c);
    std::vector<at::Tensor> inputs = run.weights;
    inputs.push_back(normal({2, 8, 16}, 6));
    const auto function = [&](const std::vector<at::Tensor>& in) {
      return run.forward(in.back(), {in.begin(), in.end() - 1});
    };
    EXPECT_LT(gradient_error(function, inputs), 1e-7) << c.name;
  }
}

TEST(MlaLayer, HasTheNamesAndShapesOfHuggingFace) {
  const MlaRun latent({.name = "latent", .has_bias = true}), plain({.name = "plain", .q_rank = 0});
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const ParameterSpec& spec : latent.builder.specs()) shapes[spec.name] = spec.shape;
  const std::map<std::string, std::vector<int64_t>> expected = {{"self_attn.q_a_proj.weight", {7, 16}},
                                                                {"self_attn.q_a_proj.bias", {7}},
                                                                {"self_attn.q_a_layernorm.weight", {7}},
                                                                {"self_attn.q_b_proj.weight", {40, 7}},
                                                                {"self_attn.kv_a_proj_with_mqa.weight", {13, 16}},
                                                                {"self_attn.kv_a_proj_with_mqa.bias", {13}},
                                                                {"self_attn.kv_a_layernorm.weight", {9}},
                                                                {"self_attn.kv_b_proj.weight", {44, 9}},
                                                                {"self_attn.o_proj.weight", {16, 20}},
                                                                {"self_attn.o_proj.bias", {16}}};
  EXPECT_EQ(shapes, expected);
  EXPECT_EQ(plain.weight("q_proj.weight").sizes(), at::IntArrayRef({40, 16}));
  EXPECT_FALSE(plain.weight("q_a_proj.weight").defined());
}

// Four heads, 4096 positions: one head's table of scores would be 64 MiB.
TEST(MlaLayer, NeverMakesATableOfScores) {
  PeakMemory& memory = PeakMemory::installed();
  const MlaCase c{.name = "long"};
  const MlaRun run(c, at::kFloat);
  constexpr int64_t kLength = 4096;
  HostBatch host = tiny_batch(1, kLength);
  const BatchContextPtr batch = tiny_context(*tiny_decoder(run.spec), host);
  const at::Tensor x = normal({1, kLength, 16}, 5, at::kFloat).set_requires_grad(true);
  std::vector<at::Tensor> weights;
  for (const at::Tensor& weight : run.weights) weights.push_back(weight.detach().clone().set_requires_grad(true));
  BlockPass pass(/*counts=*/false, /*replays=*/false, nullptr);
  const std::vector<Buffer> buffers;
  BlockContext context{.layer = 0, .batch = *batch, .pass = pass, .buffers = buffers};
  memory.reset();
  run.layer->forward(x, weights, context).sum().backward();
  EXPECT_GT(memory.peak(), kLength * 44 * 4);  // the counter counts
  EXPECT_LT(memory.peak(), kLength * kLength * 4);
}

// Whole decoders: bf16 activations move the loss of a random model by no more than their rounding.
TEST(MlaLayer, TrainsInBf16) {
  DecoderSpec spec = tiny_mla_spec();
  std::get<MlaSpec>(spec.layers[0].mixer).has_bias = true;
  const HostBatch batch = tiny_batch(3, 12);
  std::vector<double> losses, norms;
  for (const at::ScalarType activation : {at::kFloat, at::kBFloat16}) {
    Precision precision = test_precision(at::kFloat);
    precision.activation = activation;
    Decoder decoder(spec, precision, single_rank_world(), at::Device(at::kCPU), {});
    initialize_parameters(decoder.units(), 7);
    const BatchContextPtr context = tiny_context(decoder, batch);
    LayerStats stats;
    const at::Tensor objective = decoder.loss(decoder.hidden_states(context, stats), *context, 0).terms.objective();
    objective.backward();
    losses.push_back(objective.item<double>());
    double squares = 0;
    for (const UnitPtr& unit : decoder.units()) {
      for (const Parameter& parameter : unit->parameters()) {
        squares += parameter.gradient.to(at::kDouble).square().sum().item<double>();
      }
    }
    norms.push_back(std::sqrt(squares));
  }
  EXPECT_NEAR(losses[1] / losses[0], 1, 5e-3);
  EXPECT_NEAR(norms[1] / norms[0], 1, 3e-2);
}

}  // namespace
}  // namespace ballast
