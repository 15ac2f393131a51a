// SPDX-License-Identifier: Apache-2.0
// Multi-token prediction in a training step: its loss, its divisor, its cuts.
#include <gtest/gtest.h>

#include "support/tiny_model.h"
#include "train/step.h"

namespace ballast {
namespace {

using testing::relative_gap;
using testing::tiny_batch;
using testing::tiny_context;
using testing::tiny_decoder;
using testing::tiny_mtp_spec;

StepNumbers mtp_numbers(const HostBatch& batch, int64_t cuts, std::vector<at::Tensor>* gradients,
                        const DecoderOptions& decoder_options = {}) {
  const auto decoder = tiny_decoder(tiny_mtp_spec(), decoder_options, at::kDouble);
  StepOptions options;
  options.gradient_accumulation_steps = cuts;
  TrainStep step(*decoder, single_rank_world(), options);
  const StepNumbers numbers = step.accumulate(batch, 3);
  for (const UnitPtr& unit : decoder->units()) {
    for (const Parameter& parameter : unit->parameters()) gradients->push_back(parameter.gradient.clone());
  }
  return numbers;
}

void expect_same_mtp(const HostBatch& a, int64_t cuts_a, const HostBatch& b, int64_t cuts_b) {
  std::vector<at::Tensor> gradients_a, gradients_b;
  const StepNumbers got = mtp_numbers(a, cuts_a, &gradients_a), expected = mtp_numbers(b, cuts_b, &gradients_b);
  EXPECT_NEAR(got.mtp_loss / expected.mtp_loss, 1.0, 1e-12);
  EXPECT_NEAR(got.moe_lb_loss / expected.moe_lb_loss, 1.0, 1e-12);
  EXPECT_NEAR(got.loss / expected.loss, 1.0, 1e-12);
  for (size_t i = 0; i < gradients_a.size(); ++i) {
    EXPECT_LE(relative_gap(gradients_a[i], gradients_b[i]), 1e-11) << i;
  }
}

TEST(Mtp, CutsOfAStepAreEqual) {
  const HostBatch batch = tiny_batch(4, 12);
  for (const int64_t cuts : {2, 4}) expect_same_mtp(batch, cuts, batch, 1);
}

// Each document of a packed row in a row of its own, padded: the same documents for the modules. The balance loss is
// taken a row and so differs; it is left out.
TEST(Mtp, PackedDocumentsEqualSeparateRows) {
  const HostBatch packed = tiny_batch(2, 12);
  HostBatch apart;
  apart.resize(4, 12);
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t t = 0; t < 12; ++t) {
      const auto from = static_cast<size_t>(row * 12 + t);
      const int32_t document = packed.inputs_segmentation[from];
      if (document == 0) continue;
      const auto to = static_cast<size_t>((2 * row + document - 1) * 12 + packed.inputs_position[from]);
      const auto sources = packed.arrays();
      const auto targets = apart.arrays();
      for (size_t a = 0; a < sources.size(); ++a) (*targets[a])[to] = (*sources[a])[from];
    }
  }
  DecoderSpec spec = tiny_mtp_spec();
  spec.moe.load_balance_weight = 0;
  std::vector<StepNumbers> numbers;
  for (const HostBatch& batch : {packed, apart}) {
    const auto decoder = tiny_decoder(spec, {}, at::kDouble);
    numbers.push_back(TrainStep(*decoder, single_rank_world(), {}).accumulate(batch, 3));
  }
  EXPECT_GT(numbers[0].mtp_loss, 0);
  EXPECT_NEAR(numbers[1].mtp_loss / numbers[0].mtp_loss, 1.0, 1e-12);
  EXPECT_NEAR(numbers[1].loss / numbers[0].loss, 1.0, 1e-12);
  EXPECT_NEAR(*numbers[1].raw_grad_norm / *numbers[0].raw_grad_norm, 1.0, 1e-11);
}

// One ratio for all modules: weight * (sum of all cross-entropies) / (number of all targets), never a mean of ratios.
TEST(Mtp, PoolsItsModules) {
  const HostBatch batch = tiny_batch(3, 12);
  const auto decoder = tiny_decoder(tiny_mtp_spec(), {}, at::kDouble);
  const at::NoGradGuard no_grad;
  const BatchContextPtr context = tiny_context(*decoder, batch);
  LayerStats stats;
  const HiddenStates hidden = decoder->hidden_states(context, stats);
  ASSERT_EQ(hidden.further_BTD.size(), 2U);
  double ce = 0, count = 0;
  for (size_t module = 0; module < 2; ++module) {
    const BatchContext& view = *context->mtp[module];
    const at::Tensor picked = at::log_softmax(decoder->logits(hidden.further_BTD[module]).flatten(0, 1), -1)
                                  .gather(1, view.target_N.unsqueeze(1))
                                  .squeeze(1);
    ce -= (picked * view.counts_N).sum().item<double>();
    count += view.counts_N.sum().item<double>();
  }
  EXPECT_EQ(context->divisors.mtp_tokens, count);
  const DecoderLoss loss = decoder->loss(hidden, *context, 0);
  EXPECT_NEAR(loss.terms.value_of(kMtpLoss) / (0.3 * ce / count), 1.0, 1e-6);  // logits() are fp32
}

// Modules route the tokens they have an input for: the last of each document is left out, j times over.
TEST(Mtp, ModulesHaveExpertCountsOfTheirOwn) {
  const HostBatch batch = tiny_batch(3, 12);  // two documents a row
  const auto decoder = tiny_decoder(tiny_mtp_spec());
  TrainStep step(*decoder, single_rank_world(), {});
  StepNumbers numbers = step.accumulate(batch, 0);
  const std::vector<LayerLoad> loads = step.expert_loads();
  ASSERT_EQ(loads.size(), 4U);
  const auto routed = [&](size_t i) {
    return std::accumulate(loads[i].counts.begin(), loads[i].counts.end(), int64_t{0}) / 2;
  };
  const int64_t valid = 12 + 10 + 8;
  EXPECT_EQ(loads[2].layer, 2);
  EXPECT_EQ(routed(1), valid);
  EXPECT_EQ(routed(2), valid - 6);
  EXPECT_EQ(routed(3), valid - 12);
  step.update(numbers);
  EXPECT_GT(decoder->selection_bias(3).count_nonzero().item<int64_t>(), 0) << "each module moves its own bias";
}

TEST(Mtp, AcceptanceComparesWithWhatTheMainModelSaysLater) {
  DecoderSpec spec = tiny_mtp_spec();
  spec.mtp.eval_module = 2;
  const HostBatch batch = tiny_batch(3, 12);
  const auto decoder = tiny_decoder(spec);
  const at::NoGradGuard no_grad;
  const BatchContextPtr context = tiny_context(*decoder, batch);
  LayerStats stats;
  const HiddenStates hidden = decoder->hidden_states(context, stats);
  const Acceptance acceptance = decoder->acceptance(hidden, *context);
  const at::Tensor main = decoder->logits(hidden.stream_BTD).argmax(-1);
  const at::Tensor own = decoder->logits(hidden.further_BTD[1]).argmax(-1);
  const at::Tensor counts = context->mtp[1]->counts_N.view({3, 12});
  double accepted = 0, predicted = 0;
  for (int64_t row = 0; row < 3; ++row) {
    for (int64_t t = 0; t + 2 < 12; ++t) {
      if (!counts[row][t].item<bool>()) continue;
      ++predicted;
      accepted += main[row][t + 2].item<int64_t>() == own[row][t].item<int64_t>() ? 1 : 0;
    }
  }
  EXPECT_EQ(acceptance.accepted, accepted);
  EXPECT_EQ(acceptance.predicted, predicted);
  EXPECT_GT(predicted, 0);
}

}  // namespace
}  // namespace ballast
