// SPDX-License-Identifier: Apache-2.0
#include "metrics/balance_page.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace ballast {
namespace {

/// Steps 0, 10, 20 ...: a layer that routes by token id, and layers whose first expert takes more and more.
RunLoads loads_run(const std::string& name, int64_t num_steps, int64_t num_layers, int64_t num_experts) {
  RunLoads run{name, {}};
  for (int64_t i = 0; i < num_steps; ++i) {
    StepLoads step{10 * i, {}};
    for (int64_t layer = 0; layer < num_layers; ++layer) {
      LayerLoad load{layer, layer == 0, std::vector<int64_t>(static_cast<size_t>(num_experts), 48), {}};
      for (size_t e = 0; e < load.counts.size(); ++e) load.counts[e] += static_cast<int64_t>(e) * 7919 % (layer + 2);
      load.counts[0] += i;
      step.layers.push_back(std::move(load));
    }
    run.history.steps.push_back(std::move(step));
  }
  return run;
}

std::string page_of(const std::vector<RunLoads>& runs, std::optional<int64_t> step = std::nullopt) {
  return balance_page(runs, balance_view(runs, step));
}

bool page_has(const std::string& page, const std::string& part) {
  return page.find(part) != std::string::npos;
}

nlohmann::json map_data(const std::string& page) {
  const std::string mark = "<script type=\"application/json\" id=loads>";
  const size_t begin = page.find(mark) + mark.size();
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(BalancePage, HoldsMapCurvesAndTable) {
  const std::vector<RunLoads> runs = {loads_run("runs/first", 3, 4, 8)};
  const std::string page = page_of(runs);
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  EXPECT_TRUE(page_has(page, "<h1>Expert load of runs/first</h1>"));
  const nlohmann::json data = map_data(page);
  ASSERT_EQ(data.size(), 1U);
  EXPECT_EQ(data[0].at("steps"), nlohmann::json({0, 10, 20}));
  EXPECT_EQ(data[0].at("step"), 20);
  EXPECT_EQ(data[0].at("experts"), 8);
  EXPECT_EQ(data[0].at("layers")[0].at("hash"), true);
  EXPECT_EQ(data[0].at("layers")[3].at("layer"), 3);
  EXPECT_EQ(data[0].at("counts")[1][2], nlohmann::json(runs[0].history.steps[1].layers[2].counts));
  for (const char* title : {"Variance by layer", "Mean variance", "Largest load over the mean", "Entropy"}) {
    EXPECT_TRUE(page_has(page, "<figcaption><b>" + std::string(title) + "</b>")) << title;
  }
  EXPECT_TRUE(page_has(page, "<figure class=bundle>"));
  EXPECT_TRUE(page_has(page, "\"names\":[\"layer 0 (hash)\",\"layer 1\",\"layer 2\",\"layer 3\"]"));
  EXPECT_TRUE(page_has(page, "<h2>Table, step 20</h2>"));
  EXPECT_TRUE(page_has(page, "<td>1</td><td>Top-K Routed</td>"));
  EXPECT_TRUE(page_has(page, "<tr class=total><td>TOTAL</td><td>3 Top-K</td>"));
  EXPECT_TRUE(page_has(page, "Map: 3 of 3 recorded steps, curves: 3."));
}

TEST(BalancePage, TwoRunsShareAxesAndCharts) {
  std::vector<RunLoads> runs = {loads_run("a", 3, 2, 4), loads_run("b", 2, 2, 4)};
  runs[1].history.steps[1].layers[1].counts[0] = 5000;
  const std::string page = page_of(runs);
  EXPECT_TRUE(page_has(page, "A: a, B: b, step 10"));
  EXPECT_EQ(map_data(page).size(), 2U);
  EXPECT_TRUE(page_has(page, "<b>Load by layer and expert A</b>"));
  EXPECT_TRUE(page_has(page, "<b>Load by layer and expert B</b>"));
  EXPECT_TRUE(page_has(page, "<span>A</span>"));
  EXPECT_TRUE(page_has(page, "<th>Variance A</th><th>Variance B</th><th>Improvement</th>"));
  const auto axis_after = [&](const std::string& title) {
    const size_t begin = page.find("\"y\":[", page.find("<b>" + title + "</b>"));
    return page.substr(begin, page.find(']', begin) - begin);
  };
  EXPECT_EQ(axis_after("Variance by layer A"), axis_after("Variance by layer B"));
}

// A hash layer with all on one of four would give 4; the largest of the others is 100 * 4 / 160. Variances 1200 and 2.
TEST(BalancePage, TheNumbersOfAllLayersLeaveHashLayersOut) {
  const RunLoads run = {
      "r",
      {{{0, {{0, true, {40, 0, 0, 0}, {}}, {1, false, {100, 20, 20, 20}, {}}, {2, false, {2, 2, 0, 4}, {}}}}}, {}}};
  const std::string page = page_of({run});
  EXPECT_TRUE(page_has(page, "<span>Largest over mean</span><b>2.5</b>"));
  EXPECT_TRUE(page_has(page, "<span>Dead experts</span><b>1</b>"));
  EXPECT_TRUE(page_has(page, "<span>Mean variance</span><b>601</b>"));
}

TEST(BalancePage, LoadsNothingAndEscapesNames) {
  const std::string page = page_of({loads_run("<b>\"x & </title><script>", 2, 2, 4), loads_run("b", 2, 2, 4)});
  for (const char* part :
       {"http:", "https:", "//www", "src=", "href=", "url(", "@import", "fetch(", "<b>\"x", "</title><script>"}) {
    EXPECT_FALSE(page_has(page, part)) << part;
  }
}

TEST(BalancePage, StaysBelowTenMegabytesAndKeepsTheStepOfTheTable) {
  const std::vector<RunLoads> runs = {loads_run("a", 300, 61, 256), loads_run("b", 300, 61, 256)};
  const std::string page = page_of(runs, 1230);
  EXPECT_LT(page.size(), 10'000'000U);
  // 1,000,000 / (2 * 61 * 256) = 32 steps, and the one of the table.
  EXPECT_TRUE(page_has(page, "Map A: 33 of 300 recorded steps, curves: 300, map B: 33 of 300"));
  const nlohmann::json steps = map_data(page)[1].at("steps");
  EXPECT_EQ(steps.front(), 0);
  EXPECT_EQ(steps.back(), 2990);
  EXPECT_NE(std::find(steps.begin(), steps.end(), 1230), steps.end());
  EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));
}

TEST(BalancePage, StandsForOneStepOneLayerAndOneExpert) {
  const std::string page = page_of({loads_run("r", 1, 1, 1)});
  EXPECT_TRUE(page_has(page, "no layer has a router: there is no total"));
  EXPECT_FALSE(page_has(page, "<b>Mean variance</b>"));
  EXPECT_TRUE(page_has(page, "<span>Mean variance</span><b>-</b>"));
  EXPECT_FALSE(page_has(page, "nan"));
  EXPECT_EQ(map_data(page)[0].at("counts"), nlohmann::json({{{48}}}));
}

}  // namespace
}  // namespace ballast
