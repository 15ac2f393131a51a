// SPDX-License-Identifier: Apache-2.0
#include "metrics/report_chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace ballast {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Series series_of(const std::vector<double>& values) {
  Series series;
  for (size_t i = 0; i < values.size(); ++i) series.push_back({static_cast<int64_t>(i), values[i]});
  return series;
}

/// The data block of a chart.
nlohmann::json data_of(const std::string& html) {
  const std::string open = "<script type=\"application/json\">";
  const size_t begin = html.find(open) + open.size();
  return nlohmann::json::parse(html.substr(begin, html.find("</script>", begin) - begin));
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(EscapeHtml, LeavesNothingThatOpensATagOrEndsAnAttribute) {
  EXPECT_EQ(escape_html("<b>\"x\" & 'y'\n</b>"), "&lt;b&gt;&quot;x&quot; &amp; &#39;y&#39; &lt;/b&gt;");
  EXPECT_EQ(escape_html("r\xc3\xa9sum\xc3\xa9"), "r\xc3\xa9sum\xc3\xa9");
}

TEST(Downsample, ReturnsShortSeriesAsTheyAre) {
  EXPECT_EQ(downsample(series_of({1, 2, 3, 4}), 2).size(), 4U);
  EXPECT_TRUE(downsample({}, 2).empty());
}

TEST(Downsample, KeepsExtremesEndsAndTheFirstValueOfABucketThatIsNotFinite) {
  std::vector<double> values(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(0.37 * static_cast<double>(i));
  values[437] = 50;
  values[438] = -50;
  values[712] = kNoNumber;
  values[713] = kInfinity;
  const Series kept = downsample(series_of(values), 10);
  EXPECT_LE(kept.size(), 10U * 3 + 2);
  std::vector<int64_t> steps;
  for (const SeriesPoint& point : kept) steps.push_back(point.step);
  EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));
  for (const int64_t step : {0, 437, 438, 712, 999}) {
    EXPECT_NE(std::find(steps.begin(), steps.end(), step), steps.end()) << step;
  }
  EXPECT_EQ(std::find(steps.begin(), steps.end(), 713), steps.end());
  // Each hundred steps are one bucket: their extremes are there.
  for (int bucket = 0; bucket < 10; ++bucket) {
    double lowest = kInfinity, highest = -kInfinity, kept_lowest = kInfinity, kept_highest = -kInfinity;
    for (int i = 100 * bucket; i < 100 * bucket + 100; ++i) {
      if (!std::isfinite(values[i])) continue;
      lowest = std::min(lowest, values[i]);
      highest = std::max(highest, values[i]);
    }
    for (const SeriesPoint& point : kept) {
      if (point.step / 100 != bucket || !std::isfinite(point.value)) continue;
      kept_lowest = std::min(kept_lowest, point.value);
      kept_highest = std::max(kept_highest, point.value);
    }
    EXPECT_EQ(kept_lowest, lowest) << bucket;
    EXPECT_EQ(kept_highest, highest) << bucket;
  }
}

// Worked by hand with span 3, so a = 1/2: 8; (8/4 + 4/2) / (3/4) = 16/3; (8/8 + 4/4 + 2/2) / (7/8) = 24/7.
TEST(ExponentialMean, WeighsFiniteValuesByAge) {
  const std::vector<double> means = exponential_mean(series_of({kNoNumber, 8, 4, kInfinity, 2}), 3);
  ASSERT_EQ(means.size(), 5U);
  EXPECT_TRUE(std::isnan(means[0]));
  EXPECT_DOUBLE_EQ(means[1], 8);
  EXPECT_DOUBLE_EQ(means[2], 16.0 / 3);
  EXPECT_TRUE(std::isnan(means[3]));
  EXPECT_DOUBLE_EQ(means[4], 24.0 / 7);
}

TEST(AxisTicks, AreRoundNumbersInsideTheRange) {
  EXPECT_EQ(axis_ticks(0, 119, false, 6), (std::vector<double>{0, 20, 40, 60, 80, 100}));
  EXPECT_EQ(axis_ticks(4.6, 9.1, false, 6), (std::vector<double>{5, 6, 7, 8, 9}));
  EXPECT_EQ(axis_ticks(-1, 1, false, 5), (std::vector<double>{-1, -0.5, 0, 0.5, 1}));
  EXPECT_EQ(axis_ticks(30, 700, true, 6), (std::vector<double>{50, 100, 200, 500}));
  EXPECT_EQ(axis_ticks(0.5, 2e6, true, 6), (std::vector<double>{1, 100, 1e4, 1e6}));
  EXPECT_EQ(axis_ticks(90, 130, true, 6), (std::vector<double>{90, 100, 110, 120, 130}));
}

TEST(AxisTicks, StayFewForAnyRange) {
  for (const double low : {-1e300, -5.0, 0.0, 1e-300, 7.0}) {
    for (const double width : {1e-3, 1.0, 12345.0, 1e300}) {
      EXPECT_LE(axis_ticks(low, low + width, false, 6).size(), 8U) << low << " " << width;
    }
  }
  EXPECT_LE(axis_ticks(1e-300, 1e300, true, 6).size(), 8U);
}

TEST(Chart, HasLinesAxesAndTheExactValues) {
  std::vector<double> values;
  for (int i = 0; i < 20; ++i) values.push_back(1.0 / (i + 3));
  ChartSpec spec{"Loss & more", "nats",     ChartScale::kLinear, {{"lm_loss", series_of(values)}},
                 "evaluation",  {{10, 0.2}}};
  const std::string html = chart_html(spec);
  EXPECT_TRUE(html.starts_with("<figure>"));
  EXPECT_NE(html.find("<b>Loss &amp; more</b> <small>nats</small>"), std::string::npos);
  EXPECT_NE(html.find("<path class=\"raw c0\" d=\"M0 "), std::string::npos);
  EXPECT_NE(html.find("<path class=\"line c0\" d=\"M0 "), std::string::npos);
  EXPECT_NE(html.find("<path class=\"dots marks\""), std::string::npos);
  EXPECT_GE(count_of(html, "<span class=y "), 3U);
  EXPECT_GE(count_of(html, "<span class=x "), 3U);
  EXPECT_NE(html.find("<span>lm_loss</span><output>0.045454545454545456</output>"), std::string::npos) << "1/22";
  const nlohmann::json data = data_of(html);
  EXPECT_EQ(data.at("steps").size(), 20U);
  EXPECT_EQ(data.at("lines")[0].at("v").get<std::vector<double>>(), values);
  EXPECT_EQ(data.at("lines")[0].at("m").size(), 20U);
  EXPECT_EQ(data.at("marks").at("steps"), nlohmann::json({10}));
  EXPECT_EQ(data.at("marks").at("v"), nlohmann::json({0.2}));
}

// Three values on an axis from 0 - 5 % to 10 + 5 %: 5 lies in the middle, 0 at 0.5/11 above the lower edge.
TEST(Chart, DrawsPointsWhereTheAxesSay) {
  const std::string html = chart_html({"t", "", ChartScale::kLinear, {{"a", series_of({0, 5, 10}), false}}, {}, {}});
  EXPECT_NE(html.find("d=\"M0 3818h0L2000 2000L4000 182\""), std::string::npos) << html;
  // On a logarithmic axis equal ratios are equal distances.
  const std::string log = chart_html({"t", "", ChartScale::kLog, {{"a", series_of({1, 10, 100}), false}}, {}, {}});
  EXPECT_NE(log.find("d=\"M0 3818h0L2000 2000L4000 182\""), std::string::npos) << log;
}

TEST(Chart, MarksValuesThatAreNotFiniteAndBreaksTheLine) {
  const std::string html =
      chart_html({"t", "", ChartScale::kLinear, {{"a", series_of({1, 2, kNoNumber, kInfinity, 3}), false}}, {}, {}});
  EXPECT_NE(html.find("2 values are not finite, the first at step 2"), std::string::npos);
  EXPECT_NE(html.find("<path class=\"dots bad\" d=\"M2000 0h0M3000 0h0\"/>"), std::string::npos) << html;
  const size_t line = html.find("<path class=\"line c0\"");
  EXPECT_EQ(count_of(html.substr(line, html.find("/>", line) - line), "M"), 2U);
  EXPECT_EQ(data_of(html).at("lines")[0].at("v"), nlohmann::json({1, 2, "nan", "inf", 3}));
}

TEST(Chart, StandsWithoutAFiniteValueAndWithASinglePoint) {
  for (const double value : {kNoNumber, kInfinity, 0.0, -3.0, 1e308, 5e-324}) {
    for (const ChartScale scale : {ChartScale::kLinear, ChartScale::kFromZero, ChartScale::kLog}) {
      const std::string html = chart_html({"t", "", scale, {{"a", series_of({value})}}, {}, {}});
      for (const char* part : {"nan%", "inf%", "=nan", "=inf"}) EXPECT_EQ(html.find(part), std::string::npos) << html;
      EXPECT_NO_THROW(data_of(html)) << value;
    }
  }
}

TEST(Chart, LinesOfOneChartShareTheirSteps) {
  const std::string html = chart_html(
      {"t", "", ChartScale::kLinear, {{"a", {{0, 1}, {2, 3}}, false}, {"b", {{1, 5}, {2, 6}}, false}}, {}, {}});
  const nlohmann::json data = data_of(html);
  EXPECT_EQ(data.at("steps"), nlohmann::json({0, 1, 2}));
  EXPECT_EQ(data.at("lines")[0].at("v"), nlohmann::json({1, nullptr, 3}));
  EXPECT_EQ(data.at("lines")[1].at("v"), nlohmann::json({nullptr, 5, 6}));
}

}  // namespace
}  // namespace ballast
