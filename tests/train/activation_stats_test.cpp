// SPDX-License-Identifier: Apache-2.0
#include "train/activation_stats.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/tiny_model.h"
#include "train/step.h"

namespace ballast {
namespace {

// Worked by hand: mean 6/6, squared distances 1 + 1 + 0 + 4 + 1 + 9.
TEST(ActivationStats, AreThoseOfAllElements) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    LayerStats stats;
    add_activation_stats(stats, 3, at::tensor({0.0, 0.0, 1.0, -1.0, 2.0, 4.0}).to(type).view({1, 2, 3}));
    ASSERT_EQ(stats.entries().size(), 3U);
    for (const LayerStat& entry : stats.entries()) EXPECT_EQ(entry.layer, 3);
    EXPECT_DOUBLE_EQ(stats.entries()[0].value.item<double>(), 2.0 / 6);
    EXPECT_NEAR(stats.entries()[1].value.item<double>(), 1.0, 1e-6);
    EXPECT_NEAR(stats.entries()[2].value.item<double>(), std::sqrt(16.0 / 6), 1e-6);
  }
}

TEST(ActivationStats, SumsAreDividedByTheMicroBatchesAndNamedByLayer) {
  ActivationSums sums;
  for (const double shift : {0.0, 3.0}) {
    LayerStats stats;
    stats.add(0, LayerStatKind::kLoadBalance, at::scalar_tensor(7.0));
    add_activation_stats(stats, 0, at::tensor({shift, shift + 2}, at::kDouble));
    add_activation_stats(stats, 11, at::tensor({1.0, 1.0}, at::kDouble));
    sums.add(stats);
  }
  const std::vector<std::pair<std::string, double>> expected = {{"activ_fraction_zero/layer_000", 0.25},
                                                                {"activ_fraction_zero/layer_011", 0},
                                                                {"activ_mean/layer_000", 2.5},
                                                                {"activ_mean/layer_011", 1},
                                                                {"activ_stdev/layer_000", 1},
                                                                {"activ_stdev/layer_011", 0}};
  EXPECT_EQ(sums.tagged(sums.values(), 2), expected);
}

// Each layer is looked at once a micro-batch, also where its block runs again in the backward pass. The reference is a
// sum in fp64 over the streams of the same micro-batches.
TEST(ActivationStats, OfAStepAreMeansOverItsMicroBatchesWithAndWithoutRematerialization) {
  const HostBatch batch = testing::tiny_batch(4, 12);
  for (const bool rematerializes : {false, true}) {
    const auto decoder = testing::tiny_decoder(testing::tiny_spec(), {.rematerializes = rematerializes});
    std::vector<double> mean(2, 0.0), stdev(2, 0.0);
    for (const MicroBatch& part : split_batch(batch, 2, 0, AccumulationSplit::kStrided)) {
      const at::NoGradGuard no_grad;
      LayerStats stats;
      const BatchContextPtr context =
          make_batch_context(part.batch, part.instances, decoder->spec(), decoder->precision(), RunPosition{},
                             StepDivisors{}, decoder->device());
      decoder->hidden_states(context, stats, [&](int64_t layer, const at::Tensor& stream_BTD) {
        const at::Tensor flat = stream_BTD.flatten().contiguous();
        const float* x = flat.const_data_ptr<float>();
        double sum = 0, square_sum = 0;
        for (int64_t i = 0; i < flat.numel(); ++i) sum += x[i];
        const double average = sum / static_cast<double>(flat.numel());
        for (int64_t i = 0; i < flat.numel(); ++i) square_sum += (x[i] - average) * (x[i] - average);
        mean[layer] += average / 2;
        stdev[layer] += std::sqrt(square_sum / static_cast<double>(flat.numel())) / 2;
      });
    }
    StepOptions options;
    options.gradient_accumulation_steps = 2;
    options.records_activations = true;
    const StepNumbers numbers = TrainStep(*decoder, single_rank_world(), options).accumulate(batch, 0);
    ASSERT_EQ(numbers.more.size(), 6U);
    for (size_t layer = 0; layer < 2; ++layer) {
      EXPECT_EQ(numbers.more[layer].first, "activ_fraction_zero/layer_00" + std::to_string(layer));
      EXPECT_EQ(numbers.more[layer].second, 0.0);
      EXPECT_NEAR(numbers.more[2 + layer].second, mean[layer], 1e-6);
      EXPECT_NEAR(numbers.more[4 + layer].second / stdev[layer], 1.0, 1e-6);
    }
  }
}

}  // namespace
}  // namespace ballast
