// SPDX-License-Identifier: Apache-2.0
#include "models/decoder.h"

#include <gtest/gtest.h>

#include "models/dropout.h"
#include "support/tiny_model.h"

namespace ballast {
namespace {

using testing::relative_gap;
using testing::tiny_batch;
using testing::tiny_context;
using testing::tiny_decoder;
using testing::tiny_spec;

double run(Decoder& decoder, const HostBatch& batch, double z_loss_multiplier = 1e-2) {
  const BatchContextPtr context = tiny_context(decoder, batch, {.seed = 1, .step = 2, .is_training = true});
  LayerStats stats;
  const HiddenStates hidden = decoder.hidden_states(context, stats);
  const at::Tensor objective = decoder.loss(hidden, *context, z_loss_multiplier).terms.objective();
  objective.backward();
  return objective.item<double>();
}

void expect_equal_gradients(const Decoder& a, const Decoder& b, double tolerance) {
  for (size_t u = 0; u < a.units().size(); ++u) {
    for (size_t i = 0; i < a.units()[u]->parameters().size(); ++i) {
      const Parameter& left = a.units()[u]->parameters()[i];
      const Parameter& right = b.units()[u]->parameters()[i];
      EXPECT_LE(relative_gap(left.gradient, right.gradient), tolerance) << left.spec.name;
    }
  }
}

TEST(Decoder, RematerializationIsBitEqual) {
  const HostBatch batch = tiny_batch(3, 12);
  DecoderSpec spec = tiny_spec();
  spec.dropout_rate = 0.2;
  const auto plain = tiny_decoder(spec), rematerialized = tiny_decoder(spec, {.rematerializes = true});
  EXPECT_EQ(run(*plain, batch), run(*rematerialized, batch));
  expect_equal_gradients(*plain, *rematerialized, 0);
}

TEST(Decoder, VocabularyTilesGiveEqualLossAndGradients) {
  const HostBatch batch = tiny_batch(4, 12);
  for (const bool is_tied : {false, true}) {
    const auto whole = tiny_decoder(tiny_spec(is_tied));
    const double loss = run(*whole, batch);
    for (const int64_t tiles : {2, 4}) {
      for (const bool is_seq_major : {false, true}) {
        const auto tiled =
            tiny_decoder(tiny_spec(is_tied), {.num_vocab_tiling = tiles, .vocab_tiling_seq_major = is_seq_major});
        EXPECT_NEAR(run(*tiled, batch) / loss, 1.0, 1e-6);
        expect_equal_gradients(*tiled, *whole, 1e-6);
      }
    }
  }
}

// Central differences of the whole decoder in fp64, for some elements of every parameter.
TEST(Decoder, GradientsEqualFiniteDifferencesInDouble) {
  const HostBatch batch = tiny_batch(2, 10);
  DecoderSpec unusual = tiny_spec();
  for (LayerSpec& layer : unusual.layers) {
    auto& attention = std::get<AttentionSpec>(layer.mixer);
    attention.has_sinks = true;
    attention.qk_norm = QkNormKind::kPerHead;
    attention.q_norm = attention.k_norm = {.name = "norm", .has_weight = false};
    std::get<DenseFfnSpec>(layer.ffn).activation_limit = 0.5;
  }
  for (const DecoderSpec& spec : {tiny_spec(), tiny_spec(/*is_head_tied=*/true), unusual, testing::tiny_mtp_spec()}) {
    const auto decoder = tiny_decoder(spec, {.rematerializes = true}, at::kDouble);
    run(*decoder, batch);
    const auto value = [&] {
      const at::NoGradGuard no_grad;
      const BatchContextPtr context = tiny_context(*decoder, batch);
      LayerStats stats;
      for (const UnitPtr& unit : decoder->units()) unit->drop_copies();
      const HiddenStates hidden = decoder->hidden_states(context, stats);
      return decoder->loss(hidden, *context, 1e-2).terms.objective().item<double>();
    };
    const at::NoGradGuard no_grad;
    for (const UnitPtr& unit : decoder->units()) {
      for (Parameter& parameter : unit->parameters()) {
        at::Tensor flat = parameter.master.view(-1);
        const at::Tensor gradient = parameter.gradient.view(-1);
        for (int64_t i = 0; i < flat.numel(); i += 1 + flat.numel() / 7) {
          constexpr double kStep = 1e-6;
          const double original = flat[i].item<double>();
          flat[i].fill_(original + kStep);
          const double above = value();
          flat[i].fill_(original - kStep);
          const double below = value();
          flat[i].fill_(original);
          EXPECT_NEAR(gradient[i].item<double>(), (above - below) / (2 * kStep), 1e-8)
              << parameter.spec.name << " element " << i;
        }
      }
    }
  }
}

TEST(Decoder, PaddingRowChangesNoLossAndNoGradient) {
  const HostBatch batch = tiny_batch(2, 12);
  HostBatch padded = batch;
  padded.resize(3, 12);
  for (const auto member : {&HostBatch::inputs, &HostBatch::inputs_position, &HostBatch::inputs_segmentation,
                            &HostBatch::targets, &HostBatch::targets_segmentation}) {
    std::copy((batch.*member).begin(), (batch.*member).end(), (padded.*member).begin());
  }
  const auto without = tiny_decoder(tiny_spec()), with = tiny_decoder(tiny_spec());
  EXPECT_NEAR(run(*with, padded) / run(*without, batch), 1.0, 1e-6);
  expect_equal_gradients(*with, *without, 1e-6);
}

TEST(Decoder, ABatchWithoutTargetsHasLossZeroAndZeroGradients) {
  HostBatch batch = tiny_batch(2, 12);
  std::fill(batch.targets_segmentation.begin(), batch.targets_segmentation.end(), 0);
  const auto decoder = tiny_decoder(tiny_spec());
  EXPECT_EQ(run(*decoder, batch), 0.0);
  for (const UnitPtr& unit : decoder->units()) {
    for (const Parameter& parameter : unit->parameters()) {
      EXPECT_EQ(parameter.gradient.abs().max().item<double>(), 0.0) << parameter.spec.name;
    }
  }
}

TEST(Decoder, BfloatActivationsStayNearFloat) {
  const HostBatch batch = tiny_batch(3, 12);
  const auto exact = tiny_decoder(tiny_spec());
  const double loss = run(*exact, batch);
  // Products on bf16 values held in fp32, and native ones.
  for (const at::ScalarType product : {at::kFloat, at::kBFloat16}) {
    const Precision precision{
        .activation = at::kBFloat16, .weight = at::kFloat, .product = product, .master = at::kFloat};
    Decoder decoder(tiny_spec(), precision, single_rank_world(), at::Device(at::kCPU), {});
    initialize_parameters(decoder.units(), 7);
    EXPECT_NEAR(run(decoder, batch) / loss, 1.0, 1e-2);  // bf16 keeps 8 bits
    expect_equal_gradients(decoder, *exact, 5e-2);
    for (const UnitPtr& unit : decoder.units()) {
      for (const Parameter& parameter : unit->parameters()) EXPECT_EQ(parameter.gradient.scalar_type(), at::kFloat);
    }
  }
}

// The head by plain tensor operations in fp64, from hidden states of bf16: its weights are rounded to bf16 or not.
TEST(Decoder, HeadInFloatReadsWeightsThatAreNotRounded) {
  const at::NoGradGuard no_grad;
  const HostBatch batch = tiny_batch(3, 12);
  const Precision precision{
      .activation = at::kBFloat16, .weight = at::kFloat, .product = at::kFloat, .master = at::kFloat};
  for (const bool is_tied : {false, true}) {
    std::vector<at::Tensor> hiddens;
    std::vector<double> losses;
    for (const bool in_fp32 : {false, true}) {
      DecoderSpec spec = tiny_spec(is_tied);
      spec.logits_dot_in_fp32 = in_fp32;
      Decoder decoder(spec, precision, single_rank_world(), at::Device(at::kCPU), {});
      initialize_parameters(decoder.units(), 7);
      const BatchContextPtr context = tiny_context(decoder, batch);
      LayerStats stats;
      const HiddenStates hidden = decoder.hidden_states(context, stats);
      hiddens.push_back(hidden.stream_BTD);
      losses.push_back(decoder.loss(hidden, *context, 0).terms.objective().item<double>());

      at::Tensor head =
          is_tied ? decoder.units().front()->parameters()[0].master : decoder.units().back()->parameters()[1].master;
      if (!in_fp32) head = head.to(at::kBFloat16);
      const at::Tensor wide = hidden.stream_BTD.to(at::kFloat);
      const at::Tensor normed = (wide * (wide.square().mean(-1, true) + 1e-5).rsqrt()).to(at::kBFloat16);
      const at::Tensor logits_NV = at::matmul(normed.flatten(0, 1).to(at::kDouble), head.to(at::kDouble).t());
      const at::Tensor ce_N =
          -at::log_softmax(logits_NV, -1).gather(1, context->target_N.unsqueeze(1)).squeeze(1) * context->counts_N;
      EXPECT_NEAR(losses.back() / (ce_N.sum().item<double>() / context->divisors.loss_tokens), 1.0, 1e-6);
      // Without it the probe's logits are rounded to bf16.
      EXPECT_LE(relative_gap(decoder.logits(hidden.stream_BTD).flatten(0, 1), logits_NV), in_fp32 ? 1e-6 : 4e-3);
    }
    EXPECT_TRUE(at::equal(hiddens[0], hiddens[1])) << "only the head is wide";
    EXPECT_GT(std::abs(losses[0] - losses[1]), 1e-6 * losses[0]);
  }
}

TEST(Dropout, MaskFollowsTheRowNotTheCut) {
  const auto decoder = tiny_decoder(tiny_spec());
  const HostBatch batch = tiny_batch(4, 8);
  const RunPosition position{.seed = 3, .step = 1, .is_training = true};
  const BatchContextPtr whole = tiny_context(*decoder, batch, position);
  const at::Tensor x = at::ones({4, 8, 50});
  const at::Tensor all = dropout(x, 0.25, *whole, 2, 1);
  BatchContext part = *whole;
  part.instance_B = at::tensor({1, 3}, at::kLong);
  EXPECT_TRUE(at::equal(dropout(x.narrow(0, 0, 2), 0.25, part, 2, 1), all.index_select(0, part.instance_B)));
  EXPECT_FALSE(at::equal(dropout(x, 0.25, *whole, 2, 0), all)) << "each place has its own stream";
  EXPECT_NEAR(all.mean().item<double>(), 1.0, 0.05);
  EXPECT_NEAR(all.max().item<double>(), 1.0 / 0.75, 1e-6);
}

TEST(Dropout, IsIdentityInEvaluation) {
  const auto decoder = tiny_decoder(tiny_spec());
  const BatchContextPtr context = tiny_context(*decoder, tiny_batch(1, 8));
  const at::Tensor x = at::ones({1, 8, 4});
  EXPECT_TRUE(dropout(x, 0.5, *context, 0, 0).is_same(x));
}

}  // namespace
}  // namespace ballast
