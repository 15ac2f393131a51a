// SPDX-License-Identifier: Apache-2.0
#include "metrics/expert_load.h"

#include <gtest/gtest.h>

#include <cmath>

#include "metrics/train_record.h"

namespace ballast {
namespace {

using Counts = std::vector<int64_t>;

/// `total` assignments, all on the first `num_used` of `num_experts`.
Counts concentrated(size_t num_experts, size_t num_used, int64_t total) {
  Counts counts(num_experts, 0);
  for (size_t e = 0; e < num_used; ++e) counts[e] = total / static_cast<int64_t>(num_used);
  return counts;
}

// Published by MaxText (pull requests 4753 and 4190): T = 2048 tokens times K choices, all on one expert, for E = 256,
// K = 6 and for E = 16, K = 4. By hand: (TK)^2 (E - 1) / E^2 = 12288^2 * 255 / 65536 = 587520.
TEST(ExpertLoad, VarianceOfAllOnOneExpertIsThePublishedOne) {
  EXPECT_EQ(load_variance(concentrated(256, 1, 12288)), 587520.0);
  EXPECT_EQ(load_variance(concentrated(16, 1, 8192)), 3932160.0);
  EXPECT_EQ(load_variance(concentrated(16, 1, 1024)), 61440.0);
}

// Every token on the same six of 256: mean 48, (6 * 2000^2 + 250 * 48^2) / 256 = 96000.
TEST(ExpertLoad, VarianceOfTokensThatShareTheirExperts) {
  EXPECT_EQ(load_variance(concentrated(256, 6, 12288)), 96000.0);
}

// Mean 3: (4 + 1 + 0 + 9) / 4; the sample variance would be 14/3.
TEST(ExpertLoad, VarianceIsThatOfThePopulation) {
  EXPECT_EQ(load_variance(Counts{1, 2, 3, 6}), 3.5);
  EXPECT_EQ(load_variance(Counts{5, 5, 5}), 0.0);
}

TEST(ExpertLoad, MaxOverMeanAndDeadExperts) {
  EXPECT_EQ(load_max_over_mean(Counts{1, 2, 3, 6}), 2.0);
  EXPECT_EQ(load_max_over_mean(Counts{4, 4}), 1.0);
  EXPECT_EQ(load_max_over_mean(concentrated(256, 1, 12288)), 256.0);
  EXPECT_EQ(num_dead_experts(Counts{0, 3, 0, 1}), 2);
}

// Shares 1/2, 1/4, 1/4, 0: (1/2 ln 2 + 2 * 1/4 ln 4) / ln 4 = 3/4.
TEST(ExpertLoad, EntropyIsAShareOfItsLargestValue) {
  EXPECT_NEAR(load_entropy(Counts{2, 1, 1, 0}), 0.75, 1e-15);
  EXPECT_NEAR(load_entropy(Counts{7, 7, 7, 7, 7}), 1.0, 1e-15);
  EXPECT_EQ(load_entropy(Counts{0, 9, 0}), 0.0);
  EXPECT_EQ(load_entropy(Counts{9}), 1.0);
}

TEST(ExpertLoad, AStepThatRoutesNothingCountsAsEven) {
  const Counts none(4, 0);
  EXPECT_EQ(load_variance(none), 0.0);
  EXPECT_EQ(load_max_over_mean(none), 1.0);
  EXPECT_EQ(load_entropy(none), 1.0);
  EXPECT_EQ(num_dead_experts(none), 4);
  EXPECT_EQ(load_variance(Counts{}), 0.0);
  for (const auto& [tag, value] : load_tags({{3, false, none, {}}})) EXPECT_TRUE(std::isfinite(value)) << tag;
}

// Variances by hand: 61440 (T7), 3.5, and mean 1: (1 + 0 + 0 + 1) / 4 = 0.5.
TEST(ExpertLoad, TagsComeInOrderAndTheMeanLeavesHashLayersOut) {
  const LayerLoad hash{0, true, concentrated(16, 1, 1024), {}};
  const Scalars tags = load_tags({hash, {3, false, {1, 2, 3, 6}, {0, 0, 0, 0}}, {12, false, {2, 1, 1, 0}, {}}});
  // Shares 1/12, 1/6, 1/4, 1/2; the entropies of the other two layers are 0 and 3/4.
  const double entropy =
      (std::log(12.0) / 12 + std::log(6.0) / 6 + std::log(4.0) / 4 + std::log(2.0) / 2) / std::log(4.0);
  const Scalars expected = {
      {"learning/moe_load_variance/layer_000", 61440.0},  {"learning/moe_load_variance/layer_003", 3.5},
      {"learning/moe_load_variance/layer_012", 0.5},      {"learning/moe_load_variance_mean", 2.0},
      {"learning/moe_load_max_over_mean", 16.0},          {"learning/moe_dead_experts", 16.0},
      {"learning/moe_load_entropy", (entropy + 0.75) / 3}};
  ASSERT_EQ(tags.size(), expected.size());
  for (size_t i = 0; i < tags.size(); ++i) {
    EXPECT_EQ(tags[i].first, expected[i].first);
    EXPECT_NEAR(tags[i].second, expected[i].second, 1e-14) << tags[i].first;
  }
}

TEST(ExpertLoad, TagsWithoutARouterOrWithoutLayers) {
  for (const auto& [tag, value] : load_tags({{0, true, {4, 0}, {}}})) {
    EXPECT_NE(tag, "learning/moe_load_variance_mean");
    EXPECT_TRUE(std::isfinite(value));
  }
  EXPECT_TRUE(load_tags({}).empty());
}

// |(3, 4)| = 5, |(0.5, -1.2)| = 1.3.
TEST(ExpertLoad, BiasNormsAreOfTheBiasBeforeAndOfItsUpdate) {
  const Scalars tags = bias_norm_tags({{7, {3, 4}, {3.5, 2.8}}});
  ASSERT_EQ(tags.size(), 2U);
  EXPECT_EQ(tags[0].first, "learning/moe_bias_before_norm/layer_007");
  EXPECT_NEAR(tags[0].second, 5, 1e-15);
  EXPECT_EQ(tags[1].first, "learning/moe_bias_update_norm/layer_007");
  EXPECT_NEAR(tags[1].second, 1.3, 1e-12);
}

TEST(ExpertLoad, TagsStandInTheRecordOfTheStep) {
  StepNumbers numbers;
  numbers.step_seconds = 1;
  numbers.router_z_loss = 0.25;
  numbers.moe_dropped_share = 0.125;
  numbers.more = load_tags({{1, false, {1, 2, 3, 6}, {}}});
  const Record record = train_record(numbers);
  EXPECT_EQ(record.get("learning/router_z_loss"), 0.25);
  EXPECT_EQ(record.get("learning/moe_dropped_share"), 0.125);
  EXPECT_EQ(record.get("learning/moe_load_variance/layer_001"), 3.5);
  EXPECT_EQ(record.get("learning/moe_load_variance_mean"), 3.5);
  const Record without = train_record(StepNumbers());
  EXPECT_FALSE(without.get("learning/router_z_loss").has_value());
  EXPECT_FALSE(without.get("learning/moe_dropped_share").has_value());
}

}  // namespace
}  // namespace ballast
