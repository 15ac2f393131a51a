// SPDX-License-Identifier: Apache-2.0
#include "train/step.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "optim/grad_clip.h"
#include "support/tiny_model.h"
#include "train/eval_pass.h"

namespace ballast {
namespace {

using testing::relative_gap;
using testing::tiny_batch;
using testing::tiny_decoder;
using testing::tiny_spec;

StepOptions options_with(int64_t accumulation_steps) {
  StepOptions options;
  options.gradient_accumulation_steps = accumulation_steps;
  options.z_loss_multiplier = 1e-2;
  options.gradient_clipping_threshold = 1.0;
  options.schedule.learning_rate = 1e-2;
  options.schedule.schedule_steps = 10;
  options.schedule.learning_rate_final_fraction = 0.1;
  return options;
}

std::vector<at::Tensor> masters_of(const Decoder& decoder) {
  std::vector<at::Tensor> masters;
  for (const UnitPtr& unit : decoder.units()) {
    for (const Parameter& parameter : unit->parameters()) masters.push_back(parameter.master);
  }
  return masters;
}

// Rows 0..3 have 9, 7, 5 and 3 targets: micro-batches of unequal weight.
TEST(TrainStep, AccumulationCutsGiveEqualLossAndGradients) {
  const HostBatch batch = tiny_batch(4, 12);
  DecoderSpec spec = tiny_spec();
  spec.dropout_rate = 0.1;  // masks follow the row, so they do not break the equality
  const auto reference = tiny_decoder(spec);
  TrainStep whole(*reference, single_rank_world(), options_with(1));
  const StepNumbers expected = whole.accumulate(batch, 3);
  for (const AccumulationSplit split : {AccumulationSplit::kStrided, AccumulationSplit::kContiguous}) {
    for (const int64_t accumulation_steps : {2, 4}) {
      for (const bool rematerializes : {false, true}) {
        const auto decoder = tiny_decoder(spec, {.rematerializes = rematerializes, .num_vocab_tiling = 2});
        StepOptions options = options_with(accumulation_steps);
        options.split = split;
        TrainStep step(*decoder, single_rank_world(), options);
        const StepNumbers numbers = step.accumulate(batch, 3);
        EXPECT_NEAR(numbers.loss / expected.loss, 1.0, 1e-6);
        EXPECT_NEAR(numbers.ce_sum / expected.ce_sum, 1.0, 1e-6);
        EXPECT_NEAR(numbers.z_sum / expected.z_sum, 1.0, 1e-6);
        EXPECT_EQ(numbers.target_weight_sum, expected.target_weight_sum);
        EXPECT_NEAR(*numbers.raw_grad_norm / *expected.raw_grad_norm, 1.0, 1e-6);
        for (size_t u = 0; u < decoder->units().size(); ++u) {
          for (size_t i = 0; i < decoder->units()[u]->parameters().size(); ++i) {
            const Parameter& parameter = decoder->units()[u]->parameters()[i];
            EXPECT_LE(relative_gap(parameter.gradient, reference->units()[u]->parameters()[i].gradient), 1e-6)
                << parameter.spec.name;
          }
        }
      }
    }
  }
}

TEST(TrainStep, LossIsTheSumOfItsParts) {
  const auto decoder = tiny_decoder(tiny_spec());
  TrainStep step(*decoder, single_rank_world(), options_with(2));
  const StepNumbers numbers = step.accumulate(tiny_batch(4, 12), 0);
  EXPECT_EQ(numbers.target_weight_sum, static_cast<double>(tiny_batch(4, 12).loss_tokens()));
  EXPECT_NEAR(numbers.loss, (numbers.ce_sum + numbers.z_sum) / numbers.target_weight_sum, 1e-6);
}

TEST(TrainStep, UpdateLowersTheLossOfTheSameBatchAndClips) {
  const auto decoder = tiny_decoder(tiny_spec());
  StepOptions options = options_with(2);
  options.gradient_clipping_threshold = 0.5;
  TrainStep step(*decoder, single_rank_world(), options);
  const HostBatch batch = tiny_batch(4, 12);
  std::vector<double> losses;
  for (int64_t i = 0; i < 8; ++i) {
    StepNumbers numbers = step.accumulate(batch, i);
    step.update(numbers);
    losses.push_back(numbers.loss);
    EXPECT_LE(*numbers.grad_norm, 0.5 + 1e-9);
    EXPECT_GT(*numbers.param_norm, 0);
  }
  for (size_t i = 1; i < losses.size(); ++i) EXPECT_LT(losses[i], losses[i - 1]) << "step " << i;
}

TEST(TrainStep, TwoRunsAreBitEqual) {
  std::vector<double> losses[2];
  for (auto& run : losses) {
    const auto decoder = tiny_decoder(tiny_spec());
    TrainStep step(*decoder, single_rank_world(), options_with(2));
    for (int64_t i = 0; i < 5; ++i) {
      StepNumbers numbers = step.accumulate(tiny_batch(4, 12, static_cast<int>(i)), i);
      step.update(numbers);
      run.push_back(numbers.loss);
    }
  }
  EXPECT_EQ(losses[0], losses[1]);
}

TEST(TrainStep, ASkippedStepChangesNothingButTheRecord) {
  const auto decoder = tiny_decoder(tiny_spec()), witness = tiny_decoder(tiny_spec());
  TrainStep step(*decoder, single_rank_world(), options_with(1)), other(*witness, single_rank_world(), options_with(1));
  StepNumbers skipped = step.accumulate(tiny_batch(2, 12, 9), 0);
  step.skip(skipped);
  EXPECT_EQ(skipped.is_step_skipped, true);
  EXPECT_EQ(step.optimizer().step_count(), 0);
  StepNumbers a = step.accumulate(tiny_batch(2, 12), 1), b = other.accumulate(tiny_batch(2, 12), 1);
  step.update(a);
  other.update(b);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(*a.raw_grad_norm, *b.raw_grad_norm);
  EXPECT_EQ(*a.param_norm, *b.param_norm);
}

TEST(TrainStep, GradientsAreRoundedOnceAfterTheirSum) {
  StepOptions options = options_with(2);
  const auto reference = tiny_decoder(tiny_spec()), decoder = tiny_decoder(tiny_spec());
  TrainStep whole(*reference, single_rank_world(), options);
  options.rounds_gradients = true;
  TrainStep rounded(*decoder, single_rank_world(), options);
  const StepNumbers exact = whole.accumulate(tiny_batch(4, 12), 0), numbers = rounded.accumulate(tiny_batch(4, 12), 0);
  std::vector<at::Tensor> gradients;
  for (size_t u = 0; u < decoder->units().size(); ++u) {
    for (size_t i = 0; i < decoder->units()[u]->parameters().size(); ++i) {
      const at::Tensor& gradient = decoder->units()[u]->parameters()[i].gradient;
      EXPECT_TRUE(
          at::equal(gradient, reference->units()[u]->parameters()[i].gradient.to(at::kBFloat16).to(at::kFloat)));
      gradients.push_back(gradient);
    }
  }
  EXPECT_EQ(*numbers.raw_grad_norm, global_norm(gradients));
  EXPECT_NE(*numbers.raw_grad_norm, *exact.raw_grad_norm);
  EXPECT_EQ(numbers.loss, exact.loss);
}

TEST(TrainStep, ASpikeIsSkippedAndTheRateGoesOn) {
  StepOptions options = options_with(1);
  options.spike_guard = {.interval = 4, .scaling_factor = 2};
  const auto decoder = tiny_decoder(tiny_spec());
  TrainStep step(*decoder, single_rank_world(), options);
  std::vector<bool> taken;
  int64_t index = 0;
  // The guard's test point, through the numbers of a step: their mean loss is what it looks at.
  for (const double loss : {3.0, 2.9, 3.1, 3.0, 9.0, 3.0}) {
    StepNumbers numbers = step.accumulate(tiny_batch(2, 12), index);
    numbers.ce_sum = loss * numbers.target_weight_sum;
    numbers.raw_grad_norm = 1;
    const double param_norm = std::sqrt(squared_norm(masters_of(*decoder)));
    taken.push_back(step.accepts(numbers));
    if (taken.back()) {
      step.update(numbers);
    } else {
      step.skip(numbers);
      EXPECT_EQ(numbers.param_norm, param_norm);
    }
    EXPECT_EQ(numbers.is_step_skipped, !taken.back());
    EXPECT_EQ(numbers.learning_rate, learning_rate_at(options.schedule, index++));
  }
  EXPECT_EQ(taken, (std::vector<bool>{true, true, false, true, false, true}));
  EXPECT_EQ(step.optimizer().step_count(), 4);
}

TEST(TrainStep, NumbersThatAreNotFiniteOrHaveNoTargetsTeachTheGuardNothing) {
  StepOptions options = options_with(1);
  options.spike_guard = {.interval = 4, .scaling_factor = 2};
  const auto decoder = tiny_decoder(tiny_spec());
  TrainStep step(*decoder, single_rank_world(), options);
  const nlohmann::json empty = step.spike_guard()->state();
  StepNumbers numbers = step.accumulate(tiny_batch(2, 12), 0);
  StepNumbers broken = numbers, without_targets = numbers;
  broken.loss = std::numeric_limits<double>::quiet_NaN();
  without_targets.target_weight_sum = 0;
  EXPECT_FALSE(step.accepts(broken));
  EXPECT_TRUE(step.accepts(without_targets));
  EXPECT_EQ(step.spike_guard()->state(), empty);
  EXPECT_TRUE(step.accepts(numbers));
  EXPECT_NE(step.spike_guard()->state(), empty);
  EXPECT_EQ(TrainStep(*decoder, single_rank_world(), options_with(1)).spike_guard(), nullptr);
}

TEST(TrainStep, FrozenParametersStayAsTheyAre) {
  const auto decoder = tiny_decoder(tiny_spec());
  const UnitPtr& unit = decoder->units()[1];
  unit->parameters()[1].is_trainable = false;
  unit->parameters()[1].master.set_requires_grad(false);
  const at::Tensor before = unit->parameters()[1].master.clone();
  TrainStep step(*decoder, single_rank_world(), options_with(1));
  StepNumbers numbers = step.accumulate(tiny_batch(2, 12), 0);
  step.update(numbers);
  EXPECT_TRUE(at::equal(unit->parameters()[1].master, before));
  EXPECT_EQ(step.optimizer().moments().count(unit->parameters()[1].spec.name), 0U);
}

class FixedBatches : public BatchSource {
 public:
  explicit FixedBatches(std::vector<HostBatch> batches) : batches_(std::move(batches)) {}
  std::optional<HostBatch> next() override {
    if (index_ == batches_.size()) return std::nullopt;
    return batches_[index_++];
  }
  void reset() override { index_ = 0; }
  nlohmann::json state() const override { return index_; }
  void load_state(const nlohmann::json& state) override { index_ = state.get<size_t>(); }

 private:
  std::vector<HostBatch> batches_;
  size_t index_ = 0;
};

TEST(Evaluate, LeavesEveryParameterAndTheNextStepUntouched) {
  const auto decoder = tiny_decoder(tiny_spec()), witness = tiny_decoder(tiny_spec());
  TrainStep step(*decoder, single_rank_world(), options_with(2)), other(*witness, single_rank_world(), options_with(2));
  FixedBatches source({tiny_batch(2, 12, 1), tiny_batch(3, 12, 2)});
  for (int64_t i = 0; i < 3; ++i) {
    StepNumbers a = step.accumulate(tiny_batch(4, 12, 5), i), b = other.accumulate(tiny_batch(4, 12, 5), i);
    step.update(a);
    other.update(b);
    evaluate(*decoder, source, *single_rank_world(), {.z_loss_multiplier = 1e-2});
    EXPECT_EQ(a.loss, b.loss);
  }
  for (size_t u = 0; u < decoder->units().size(); ++u) {
    for (size_t i = 0; i < decoder->units()[u]->parameters().size(); ++i) {
      const Parameter& parameter = decoder->units()[u]->parameters()[i];
      EXPECT_TRUE(at::equal(parameter.master, witness->units()[u]->parameters()[i].master));
      EXPECT_FALSE(parameter.gradient.defined());
    }
  }
}

TEST(Evaluate, WeighsTokensNotBatches) {
  const auto decoder = tiny_decoder(tiny_spec());
  FixedBatches both({tiny_batch(1, 12, 1), tiny_batch(4, 12, 2)});
  FixedBatches first({tiny_batch(1, 12, 1)}), second({tiny_batch(4, 12, 2)});
  const auto loss = [&](BatchSource& source) {
    return evaluate(*decoder, source, *single_rank_world(), {}).avg_loss();
  };
  const double w1 = static_cast<double>(tiny_batch(1, 12, 1).loss_tokens());
  const double w2 = static_cast<double>(tiny_batch(4, 12, 2).loss_tokens());
  ASSERT_NE(w1, w2);
  EXPECT_NEAR(loss(both), (w1 * loss(first) + w2 * loss(second)) / (w1 + w2), 1e-6);
}

TEST(Evaluate, StopsAfterTheAskedBatchesAndRestartsEachTime) {
  const auto decoder = tiny_decoder(tiny_spec());
  FixedBatches source({tiny_batch(1, 12, 1), tiny_batch(1, 12, 2), tiny_batch(1, 12, 3)});
  const EvalTotals once = evaluate(*decoder, source, *single_rank_world(), {.max_batches = 2});
  const EvalTotals again = evaluate(*decoder, source, *single_rank_world(), {.max_batches = 2});
  EXPECT_EQ(once.num_batches(), 2);
  EXPECT_EQ(once.avg_loss(), again.avg_loss());
}

}  // namespace
}  // namespace ballast
