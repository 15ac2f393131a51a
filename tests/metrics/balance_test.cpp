// SPDX-License-Identifier: Apache-2.0
#include "metrics/balance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "errors/errors.h"

namespace ballast {
namespace {

struct PublishedRow {
  double baseline, balanced;
  const char* improvement;
};
// Variances of the layers 3 to 42 of DeepSeek V4 Flash at step 300, without and with load balancing, and the
// improvement as published in MaxText's pull request 4753. Layers 0 to 2 are hash routed and have 587520.00 in both
// runs.
constexpr PublishedRow kPublished[] = {
    {14623.82, 2447.45, "83.26%"}, {15871.75, 3436.97, "78.35%"}, {15261.11, 3110.88, "79.62%"},
    {15717.74, 1812.94, "88.47%"}, {15728.96, 2615.92, "83.37%"}, {15999.51, 4967.23, "68.95%"},
    {15240.05, 3919.24, "74.28%"}, {16086.67, 2348.59, "85.40%"}, {16092.98, 2607.32, "83.80%"},
    {14255.88, 2896.68, "79.68%"}, {14632.31, 4420.16, "69.79%"}, {15010.89, 4668.00, "68.90%"},
    {16004.66, 2190.59, "86.31%"}, {14625.14, 2506.02, "82.86%"}, {13549.16, 2880.44, "78.74%"},
    {15119.30, 3142.03, "79.22%"}, {14413.22, 4134.32, "71.32%"}, {14239.44, 2910.45, "79.56%"},
    {13616.19, 2687.55, "80.26%"}, {14360.10, 1947.84, "86.44%"}, {14887.30, 3880.00, "73.94%"},
    {14978.84, 4074.12, "72.80%"}, {14996.25, 1401.96, "90.65%"}, {14232.96, 3889.90, "72.67%"},
    {14977.17, 1858.18, "87.59%"}, {14378.70, 2400.12, "83.31%"}, {13691.07, 2181.08, "84.07%"},
    {15055.45, 3521.05, "76.61%"}, {14677.20, 5095.23, "65.28%"}, {16188.89, 3978.03, "75.43%"},
    {14369.13, 2921.98, "79.66%"}, {14483.14, 5714.06, "60.55%"}, {15321.41, 2911.53, "81.00%"},
    {13667.09, 2495.93, "81.74%"}, {14704.00, 3494.09, "76.24%"}, {14339.20, 2385.22, "83.37%"},
    {14203.30, 2454.55, "82.72%"}, {13582.94, 2371.51, "82.54%"}, {16522.23, 3767.62, "77.20%"},
    {16277.68, 1494.26, "90.82%"},
};
constexpr double kPublishedSums[] = {595982.83, 123941.04};

/// Counts of 256 experts, mean 1000, whose variance is `variance` to two digits: pairs 1000 + d and 1000 - d, where the
/// sum of 2 d^2 is the even number next to 256 * variance.
std::vector<int64_t> counts_of(double variance) {
  std::vector<int64_t> counts(256, 1000);
  int64_t left = std::llround(256 * variance / 2);
  for (size_t e = 0; left > 0; e += 2) {
    const int64_t d = std::min<int64_t>(1000, static_cast<int64_t>(std::sqrt(static_cast<double>(left))));
    counts[e] += d;
    counts[e + 1] -= d;
    left -= d * d;
  }
  return counts;
}

StepLoads published_step(int64_t step, double PublishedRow::* column) {
  StepLoads loads{step, {}};
  for (int64_t layer = 0; layer < 3; ++layer) {
    loads.layers.push_back({layer, true, std::vector<int64_t>(256, 0), {}});
    loads.layers.back().counts[0] = 12288;
  }
  for (const PublishedRow& row : kPublished) {
    const int64_t layer = static_cast<int64_t>(loads.layers.size());
    loads.layers.push_back({layer, false, counts_of(row.*column), {}});
  }
  return loads;
}

RunLoads run_of(const std::string& name, std::vector<StepLoads> steps) {
  return {name, {std::move(steps), {}}};
}

/// A step with one layer of four experts.
StepLoads small_step(int64_t step, std::vector<int64_t> counts) {
  return {step, {{0, false, std::move(counts), {}}}};
}

std::string with_single_spaces(const std::string& text) {
  return std::regex_replace(text, std::regex(" +"), " ");
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Balance, TwoRunsGiveThePublishedTable) {
  const std::vector<RunLoads> runs = {run_of("a", {published_step(299, &PublishedRow::baseline)}),
                                      run_of("b", {published_step(299, &PublishedRow::balanced)})};
  const BalanceTable table = balance_table(balance_view(runs, std::nullopt));
  ASSERT_EQ(table.rows.size(), 43U);
  EXPECT_EQ(table.rows[2], (std::vector<std::string>{"2", "Hash Routed", "587520.00", "587520.00", "0.00%"}));
  for (size_t i = 0; i < std::size(kPublished); ++i) {
    const std::vector<std::string>& row = table.rows[i + 3];
    EXPECT_EQ(row[0], std::to_string(i + 3));
    EXPECT_EQ(row[1], "Top-K Routed");
    EXPECT_NEAR(std::stod(row[2]), kPublished[i].baseline, 0.0051) << i;  // even sums lie 2/256 apart
    EXPECT_NEAR(std::stod(row[3]), kPublished[i].balanced, 0.0051) << i;
    EXPECT_EQ(row[4], kPublished[i].improvement) << i;
  }
  ASSERT_EQ(table.total.size(), 5U);
  EXPECT_EQ(table.total[1], "40 Top-K");
  // 40 rows, each rounded to 0.005 and moved by up to 0.004.
  EXPECT_NEAR(std::stod(table.total[2]), kPublishedSums[0], 0.36);
  EXPECT_NEAR(std::stod(table.total[3]), kPublishedSums[1], 0.36);
  EXPECT_EQ(table.total[4], "79.20%");
}

TEST(Balance, TheTextHasTheFormOfThePublishedTable) {
  const std::vector<RunLoads> runs = {run_of("a", {published_step(299, &PublishedRow::baseline)}),
                                      run_of("b", {published_step(299, &PublishedRow::balanced)})};
  const std::string text = balance_text(balance_table(balance_view(runs, std::nullopt)));
  // Lines of the thread, but for the width of the columns.
  for (const char* line :
       {"| 0 | Hash Routed | 587520.00 | 587520.00 | 0.00% |\n", "| 4 | Top-K Routed | 15871.75 | 3436.97 | 78.35% |\n",
        "| 25 | Top-K Routed | 14996.25 | 1401.96 | 90.65% |\n",
        "| 34 | Top-K Routed | 14483.14 | 5714.06 | 60.55% |\n"}) {
    EXPECT_TRUE(holds(with_single_spaces(text), line)) << line << text;
  }
  EXPECT_TRUE(
      text.starts_with("| Layer Index | Routing Type | Variance A | Variance B | Improvement |\n"
                       "|-------------|--------------|------------|------------|-------------|\n"
                       "|           0 | Hash Routed  |  587520.00 |  587520.00 |       0.00% |\n"))
      << text;
  EXPECT_TRUE(holds(text,
                    "|-------------|--------------|------------|------------|-------------|\n"
                    "| TOTAL       | 40 Top-K     |"))
      << text;
  EXPECT_TRUE(holds(text, "TOTAL: sums over 40 Top-K layers, improvement of the sums; mean variance 14899.")) << text;
}

// Variances 3.5 and 0.5 (expert_load_test), max over mean 2, one dead expert; 4 assignments of one token on one expert.
TEST(Balance, OneRunShowsVarianceMaxOverMeanAndDeadExperts) {
  const std::vector<RunLoads> runs = {
      run_of("r", {{7, {{0, true, {4, 0}, {}}, {1, false, {1, 2, 3, 6}, {}}, {3, false, {2, 1, 1, 0}, {}}}}})};
  const BalanceView view = balance_view(runs, std::nullopt);
  EXPECT_EQ(view.title, "step 7");
  EXPECT_EQ(balance_text(balance_table(view)),
            "| Layer Index | Routing Type | Variance | Max/Mean | Dead Experts |\n"
            "|-------------|--------------|----------|----------|--------------|\n"
            "|           0 | Hash Routed  |     4.00 |     2.00 |            1 |\n"
            "|           1 | Top-K Routed |     3.50 |     2.00 |            0 |\n"
            "|           3 | Top-K Routed |     0.50 |     2.00 |            1 |\n"
            "|-------------|--------------|----------|----------|--------------|\n"
            "| TOTAL       | 2 Top-K      |     4.00 |     2.00 |            1 |\n"
            "TOTAL: sums over 2 Top-K layers, the largest max/mean; mean variance 2.00\n");
}

TEST(Balance, WithoutARouterThereIsNoTotal) {
  const std::vector<RunLoads> runs = {run_of("r", {{0, {{0, true, {4, 0}, {}}}}})};
  const BalanceTable table = balance_table(balance_view(runs, std::nullopt));
  EXPECT_TRUE(table.total.empty());
  EXPECT_TRUE(holds(balance_text(table), "no layer has a router: there is no total"));
}

TEST(Balance, TakesTheGivenStepElseTheLastCommonOneElseTheLastOfEach) {
  const std::vector<int64_t> even = {1, 1, 1, 1};
  const std::vector<RunLoads> runs = {
      run_of("a", {small_step(0, even), small_step(10, even), small_step(20, even), small_step(23, even)}),
      run_of("b", {small_step(0, even), small_step(20, even), small_step(25, even)})};
  const auto steps_of_view = [&](std::span<const RunLoads> chosen, std::optional<int64_t> step) {
    std::vector<int64_t> steps;
    for (const StepLoads* loads : balance_view(chosen, step).steps) steps.push_back(loads->step);
    return steps;
  };
  EXPECT_EQ(steps_of_view(std::span(runs).first(1), std::nullopt), (std::vector<int64_t>{23}));
  EXPECT_EQ(steps_of_view(std::span(runs).first(1), 10), (std::vector<int64_t>{10}));
  EXPECT_EQ(steps_of_view(runs, std::nullopt), (std::vector<int64_t>{20, 20}));
  EXPECT_EQ(steps_of_view(runs, 0), (std::vector<int64_t>{0, 0}));
  const std::vector<RunLoads> apart = {run_of("a", {small_step(3, even)}), run_of("b", {small_step(4, even)})};
  EXPECT_EQ(steps_of_view(apart, std::nullopt), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(balance_view(apart, std::nullopt).title, "step 3 of A, step 4 of B");
  EXPECT_EQ(balance_view(apart, std::nullopt).notes.front(),
            "the runs have no step in common: each shows its last one");
}

TEST(Balance, AStepThatIsNotRecordedNamesTheRunAndItsSteps) {
  std::vector<StepLoads> steps;
  for (int64_t step = 0; step < 30; ++step) steps.push_back(small_step(step, {1, 1}));
  const std::vector<RunLoads> runs = {run_of("runs/a", {small_step(0, {1}), small_step(7, {1})}),
                                      run_of("runs/b", steps)};
  const auto error_of_step = [&](int64_t step) -> std::string {
    try {
      balance_view(runs, step);
    } catch (const DataError& error) {
      return error.what();
    }
    return "no DataError";
  };
  EXPECT_TRUE(holds(error_of_step(5), "runs/a: the step is not recorded; got --step 5, need one of 0, 7; try"))
      << error_of_step(5);
  const std::span<const RunLoads> second = std::span(runs).last(1);
  try {
    balance_view(second, 40);
    FAIL() << "step 40 is not there";
  } catch (const DataError& error) {
    EXPECT_TRUE(holds(error.what(), "need one of 0, 1, 2, 3, 4, 5, 6, 7, 8, ..., 27, 28, 29;")) << error.what();
  }
}

TEST(Balance, SaysWhatKeepsTwoRunsFromBeingCompared) {
  const std::vector<RunLoads> runs = {
      run_of("a", {{0, {{0, true, {4, 0}, {}}, {1, false, {2, 2}, {}}, {2, false, {3, 1}, {}}}}}),
      run_of("b", {{0, {{1, false, {4, 4}, {}}, {2, false, {3, 1}, {}}, {5, false, {1, 1, 1}, {}}}}})};
  const BalanceView view = balance_view(runs, std::nullopt);
  EXPECT_EQ(view.notes,
            (std::vector<std::string>{"layer 1 has 4 assignments in A and 8 in B: the variances do not compare",
                                      "only one of the runs has these layers: 0, 5"}));
  const BalanceTable table = balance_table(view);
  ASSERT_EQ(table.rows.size(), 4U);
  EXPECT_EQ(table.rows[0], (std::vector<std::string>{"0", "Hash Routed", "4.00", "-", "-"}));
  EXPECT_EQ(table.rows[1], (std::vector<std::string>{"1", "Top-K Routed", "0.00", "0.00", "0.00%"}));
  EXPECT_EQ(table.rows[3], (std::vector<std::string>{"5", "Top-K Routed", "-", "0.00", "-"}));
  EXPECT_EQ(table.total[1], "2 Top-K") << "layers that both runs have";
}

TEST(Balance, AnImprovementOnPerfectBalanceHasNoPercentage) {
  const std::vector<RunLoads> runs = {run_of("a", {small_step(0, {2, 2})}), run_of("b", {small_step(0, {3, 1})})};
  EXPECT_EQ(balance_table(balance_view(runs, 0)).rows[0][4], "-");
  const std::vector<RunLoads> worse = {runs[1], run_of("c", {small_step(0, {4, 0})})};
  EXPECT_EQ(balance_table(balance_view(worse, 0)).rows[0][4], "-300.00%") << "variance 1 becomes 4";
}

}  // namespace
}  // namespace ballast
