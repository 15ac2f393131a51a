// SPDX-License-Identifier: Apache-2.0
// One chart of a run's report: axes, lines, marks and the values behind them, as a piece of HTML.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "metrics/run_history.h"

namespace ballast {

/// A line of a chart. A smoothed line is drawn thin, with its exponential mean over it.
struct ChartLine {
  std::string label;
  Series points;
  bool is_smoothed = true;
};

enum class ChartScale {
  kLinear,    ///< from the smallest to the largest value
  kFromZero,  ///< linear, zero is in view
  kLog,       ///< logarithmic; linear where a value is not positive
};

struct ChartSpec {
  std::string title;
  std::string unit;
  ChartScale scale = ChartScale::kLinear;
  std::vector<ChartLine> lines;  ///< drawn in this order
  std::string marks_label;       ///< of single points, drawn last
  Series marks;
  /// Many lines of one kind in an order: coloured along it, and the legend has the one nearest to the pointer only.
  bool is_bundle = false;
  std::vector<double> shown_values = {};  ///< values that the axis holds besides those of the lines
};

/// Logarithmic where the values are positive and span a factor of 30.
ChartScale scale_for(const std::vector<ChartLine>& lines, ChartScale otherwise);

/// Text for HTML, in an element or in a quoted attribute: & < > " ' become entities, control characters spaces.
std::string escape_html(const std::string& text);

/// Keeps of each of `num_buckets` equally wide step ranges the smallest and the largest value and the first value that
/// is not finite, besides the first and the last point. At most twice num_buckets points come back unchanged.
Series downsample(const Series& points, int num_buckets);

/// Exponential mean m_i = sum_j a (1-a)^(i-j) x_j / sum_j a (1-a)^(i-j), a = 2 / (span + 1), over the finite values up
/// to each point. Points that are not finite, and those before the first finite one, get NaN.
std::vector<double> exponential_mean(const Series& points, double span);

/// Span of the exponential mean: a fiftieth of the points, at least 5.
double smoothing_span(size_t num_points);

/// Positions of axis ticks inside [low, high]: multiples of 1, 2 or 5 times a power of ten. A logarithmic axis gets
/// powers of ten, or 1, 2 and 5 times those where they are few, and the linear ones within less than a decade.
std::vector<double> axis_ticks(double low, double high, bool is_log, int max_ticks);

/// A <figure> whose read-out, axes and lines stand without a script; the report's script makes it interactive with the
/// values in the figure's JSON block. Values that are not finite are marked at the upper edge.
std::string chart_html(const ChartSpec& spec);

}  // namespace ballast
