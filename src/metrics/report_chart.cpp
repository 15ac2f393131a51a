// SPDX-License-Identifier: Apache-2.0
#include "metrics/report_chart.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "metrics/number.h"

namespace ballast {
namespace {

constexpr int kNumBuckets = 250;         // a plot is about 600 pixels wide at most
constexpr double kPathUnits = 4000;      // side of the plot in path coordinates
constexpr double kLargestShown = 1e300;  // differences of shown values stay finite
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Axis {
  double low = 0, high = 1;
  bool is_log = false;

  /// 0 at the low end, 1 at the high end.
  double share(double value) const {
    if (is_log) return (std::log(value) - std::log(low)) / (std::log(high) - std::log(low));
    return (std::clamp(value, -kLargestShown, kLargestShown) - low) / (high - low);
  }
};

/// A line with what is drawn of it, at the steps that all lines of the chart share.
struct KeptLine {
  std::vector<std::optional<double>> values;  ///< absent: this line has no such step
  std::vector<double> means;                  ///< empty: not smoothed
};

/// `value` with at most six digits: 12.5k, 0.003, 2e-5.
std::string tick_text(double value) {
  const double size = std::abs(value);
  const char* suffix = "";
  if (size >= 1e4 && size < 1e15) {
    const int thousands = static_cast<int>(std::floor(std::log10(size) / 3 + 1e-9));
    constexpr const char* kSuffixes[] = {"", "k", "M", "G", "T"};
    suffix = kSuffixes[thousands];
    value /= std::pow(10.0, 3 * thousands);
  }
  std::string result = general(value, 6);
  const size_t exponent = result.find('e');
  if (exponent != std::string::npos) {
    const char sign = result[exponent + 1];
    result = result.substr(0, exponent) + "e" + (sign == '-' ? "-" : "") +
             result.substr(result.find_first_not_of('0', exponent + 2));
  }
  return result + suffix;
}

std::string mean_text(double mean) {
  const double size = std::abs(mean);
  return size >= 1e4 && size < 1e15 ? fixed(mean, 0) : general(mean, 4);
}

std::string percent(double share) {
  return fixed(100 * share, 2) + "%";
}

void for_each_point(const ChartSpec& spec, const auto& visit) {
  for (const ChartLine& line : spec.lines) {
    for (const SeriesPoint& point : line.points) visit(point);
  }
  for (const SeriesPoint& point : spec.marks) visit(point);
}

Axis step_axis(const ChartSpec& spec) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for_each_point(spec, [&](const SeriesPoint& point) {
    low = std::min(low, static_cast<double>(point.step));
    high = std::max(high, static_cast<double>(point.step));
  });
  if (!(low <= high)) return {};
  return high > low ? Axis{low, high, false} : Axis{low - 1, high + 1, false};
}

Axis value_axis(const ChartSpec& spec) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  const auto show = [&](double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, std::clamp(value, -kLargestShown, kLargestShown));
    high = std::max(high, std::clamp(value, -kLargestShown, kLargestShown));
  };
  for_each_point(spec, [&](const SeriesPoint& point) { show(point.value); });
  for (const double value : spec.shown_values) show(value);
  if (!(low <= high)) return {};
  if (spec.scale == ChartScale::kLog && low > 0) {
    const double margin = high > low ? std::exp(0.05 * (std::log(high) - std::log(low))) : 1.5;
    return {low / margin, high * margin, true};
  }
  const bool starts_at_zero = spec.scale == ChartScale::kFromZero && low >= 0;
  if (starts_at_zero) low = 0;
  const double margin = high > low ? 0.05 * (high - low) : std::max(0.1 * std::abs(high), 1e-12);
  return {starts_at_zero ? 0 : low - margin, high + margin, false};
}

std::vector<int64_t> kept_steps(const std::vector<ChartLine>& lines) {
  std::vector<int64_t> steps;
  for (const ChartLine& line : lines) {
    for (const SeriesPoint& point : downsample(line.points, kNumBuckets)) steps.push_back(point.step);
  }
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

KeptLine keep(const ChartLine& line, const std::vector<int64_t>& steps) {
  KeptLine kept;
  constexpr size_t kFewestSmoothed = 10;
  const bool is_smoothed = line.is_smoothed && line.points.size() >= kFewestSmoothed;
  const std::vector<double> means =
      is_smoothed ? exponential_mean(line.points, smoothing_span(line.points.size())) : std::vector<double>();
  size_t i = 0;
  for (const int64_t step : steps) {
    while (i < line.points.size() && line.points[i].step < step) ++i;
    const bool has_step = i < line.points.size() && line.points[i].step == step;
    kept.values.push_back(has_step ? std::optional(line.points[i].value) : std::nullopt);
    if (is_smoothed) kept.means.push_back(has_step ? means[i] : kNan);
  }
  return kept;
}

/// Class and style of what has the colour of a line: lines of a bundle go from the first colour over the third to the
/// second.
std::string paint(const std::string& classes, const ChartSpec& spec, size_t line) {
  if (!spec.is_bundle) return "class=\"" + classes + (classes.empty() ? "c" : " c") + std::to_string(line) + "\"";
  const double place = 2 * static_cast<double>(line) / std::max(1.0, static_cast<double>(spec.lines.size()) - 1);
  const bool is_early = place < 1;
  return "class=\"" + classes + "\" style=\"--color:color-mix(in oklab," + (is_early ? "var(--c2) " : "var(--c1) ") +
         fixed(100 * (is_early ? place : place - 1), 0) + "%," + (is_early ? "var(--c0)" : "var(--c2)") + ")\"";
}

/// The line of a bundle that the legend begins with: the one that ends highest.
size_t leading_line(const std::vector<KeptLine>& lines) {
  const auto end_of = [](const KeptLine& line) {
    const bool has_end = !line.values.empty() && line.values.back() && std::isfinite(*line.values.back());
    return has_end ? *line.values.back() : -std::numeric_limits<double>::infinity();
  };
  const auto highest = std::max_element(lines.begin(), lines.end(),
                                        [&](const KeptLine& a, const KeptLine& b) { return end_of(a) < end_of(b); });
  return static_cast<size_t>(highest - lines.begin());
}

class Plot {
 public:
  explicit Plot(const ChartSpec& spec) : spec_(spec), x_(step_axis(spec)), y_(value_axis(spec)) {}

  std::string html(const std::vector<int64_t>& steps, const std::vector<KeptLine>& lines, const Series& marks) const {
    const std::vector<double> y_ticks = axis_ticks(y_.low, y_.high, y_.is_log, 6);
    const std::vector<double> x_ticks = axis_ticks(x_.low, x_.high, false, 6);
    std::string html = "<div class=plot tabindex=0 role=img aria-label=\"" + escape_html(summary()) +
                       "\"><svg viewBox=\"0 0 4000 4000\" preserveAspectRatio=none aria-hidden=true>";
    html += path("class=grid", grid(y_ticks));
    Series non_finite;
    for (size_t i = 0; i < lines.size(); ++i) {
      const bool has_mean = !lines[i].means.empty();
      html += path(paint(has_mean ? "raw" : "line", spec_, i),
                   line_path(steps, [&](size_t k) { return lines[i].values[k]; }));
      if (has_mean) {
        html += path(paint("line", spec_, i), line_path(steps, [&](size_t k) {
                       return std::isnan(lines[i].means[k]) ? std::nullopt : std::optional(lines[i].means[k]);
                     }));
      }
      for (size_t k = 0; k < steps.size(); ++k) {
        if (lines[i].values[k] && !std::isfinite(*lines[i].values[k])) non_finite.push_back({steps[k], 0});
      }
    }
    constexpr size_t kManyMarks = 40;
    html += path(marks.size() > kManyMarks ? "class=\"dots many marks\"" : "class=\"dots marks\"", dots(marks));
    html += path("class=\"dots bad\"", edge_dots(non_finite));
    html += "</svg>";
    for (const double tick : y_ticks) {
      html += "<span class=y style=top:" + percent(1 - y_.share(tick)) + ">" + tick_text(tick) + "</span>";
    }
    for (const double tick : x_ticks) {
      if (tick != std::floor(tick)) continue;
      html += "<span class=x style=left:" + percent(x_.share(tick)) + ">" + tick_text(tick) + "</span>";
    }
    return html + "<span class=xlabel>step</span><i class=cursor></i></div>";
  }

  std::string axes_json() const {
    return "\"x\":[" + shortest(x_.low) + "," + shortest(x_.high) + "],\"y\":[" + shortest(y_.low) + "," +
           shortest(y_.high) + "],\"log\":" + (y_.is_log ? "true" : "false");
  }

 private:
  std::string summary() const {
    std::string text = spec_.title;
    if (spec_.is_bundle) return text + "; " + std::to_string(spec_.lines.size()) + " lines";
    for (const ChartLine& line : spec_.lines) {
      if (line.points.empty()) continue;
      const SeriesPoint &first = line.points.front(), &last = line.points.back();
      text += "; " + line.label + " " + tick_text(first.value) + " at step " + std::to_string(first.step) + ", " +
              tick_text(last.value) + " at step " + std::to_string(last.step);
    }
    return text;
  }

  static std::string path(const std::string& attributes, const std::string& data) {
    if (data.empty()) return {};
    return "<path " + attributes + " d=\"" + data + "\"/>";
  }
  static std::string coordinate(double share) {
    return std::to_string(static_cast<int>(std::lround(kPathUnits * std::clamp(share, -1.0, 2.0))));
  }
  std::string at(int64_t step, double value) const {
    return coordinate(x_.share(static_cast<double>(step))) + " " + coordinate(1 - y_.share(value));
  }

  std::string grid(const std::vector<double>& ticks) const {
    std::string data;
    for (const double tick : ticks) data += "M0 " + coordinate(1 - y_.share(tick)) + "H4000";
    return data;
  }
  /// Steps without a value are passed over, values that are not finite break the line.
  std::string line_path(const std::vector<int64_t>& steps, const auto& value_at) const {
    std::string data;
    bool is_open = false;
    for (size_t k = 0; k < steps.size(); ++k) {
      const std::optional<double> value = value_at(k);
      if (!value) continue;
      if (std::isfinite(*value)) data += (is_open ? "L" : "M") + at(steps[k], *value);
      // A single point shows as a dot only if the path has a segment.
      if (std::isfinite(*value) && !is_open) data += "h0";
      is_open = std::isfinite(*value);
    }
    return data;
  }
  std::string dots(const Series& points) const {
    std::string data;
    for (const SeriesPoint& point : points) {
      if (std::isfinite(point.value)) data += "M" + at(point.step, point.value) + "h0";
    }
    return data;
  }
  std::string edge_dots(const Series& points) const {
    std::string data;
    for (const SeriesPoint& point : points) {
      data += "M" + coordinate(x_.share(static_cast<double>(point.step))) + " 0h0";
    }
    return data;
  }

  const ChartSpec& spec_;
  Axis x_, y_;
};

std::string value_json(std::optional<double> value) {
  if (!value) return "null";
  return std::isfinite(*value) ? shortest(*value) : "\"" + shortest(*value) + "\"";
}

std::string list_json(size_t size, const auto& text_at) {
  std::string json = "[";
  for (size_t i = 0; i < size; ++i) json += (i == 0 ? "" : ",") + text_at(i);
  return json + "]";
}

std::string data_json(const ChartSpec& spec, const Plot& plot, const std::vector<int64_t>& steps,
                      const std::vector<KeptLine>& lines, const Series& marks) {
  std::string json = "{" + plot.axes_json();
  if (spec.is_bundle) {
    json += ",\"lead\":" + std::to_string(leading_line(lines)) + ",\"names\":" +
            list_json(spec.lines.size(), [&](size_t i) { return "\"" + escape_html(spec.lines[i].label) + "\""; });
  }
  json += ",\"steps\":" + list_json(steps.size(), [&](size_t k) { return std::to_string(steps[k]); });
  json += ",\"lines\":" + list_json(lines.size(), [&](size_t i) {
            const KeptLine& line = lines[i];
            return "{\"v\":" + list_json(steps.size(), [&](size_t k) { return value_json(line.values[k]); }) +
                   ",\"m\":" +
                   list_json(line.means.size(),
                             [&](size_t k) {
                               return std::isnan(line.means[k]) ? std::string("null") : mean_text(line.means[k]);
                             }) +
                   "}";
          });
  json += ",\"marks\":{\"steps\":" + list_json(marks.size(), [&](size_t k) { return std::to_string(marks[k].step); });
  json += ",\"v\":" + list_json(marks.size(), [&](size_t k) { return value_json(marks[k].value); });
  return json + "}}";
}

std::string legend_row(const std::string& attributes, const std::string& label, const std::string& value,
                       const std::string& note) {
  return "<li><i " + attributes + "></i><span>" + escape_html(label) + "</span><output>" + value + "</output><small>" +
         note + "</small></li>";
}

std::string non_finite_row(const ChartSpec& spec) {
  int64_t count = 0, first = 0;
  for_each_point(spec, [&](const SeriesPoint& point) {
    if (std::isfinite(point.value)) return;
    if (count == 0 || point.step < first) first = point.step;
    ++count;
  });
  if (count == 0) return {};
  return "<li class=warn><i class=\"dot bad\"></i><span>" + std::to_string(count) +
         (count == 1 ? " value is" : " values are") + " not finite, the first at step " + std::to_string(first) +
         "</span></li>";
}

}  // namespace

std::string escape_html(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return escaped;
}

ChartScale scale_for(const std::vector<ChartLine>& lines, ChartScale otherwise) {
  double low = INFINITY, high = 0;
  for (const ChartLine& line : lines) {
    for (const SeriesPoint& point : line.points) {
      if (!std::isfinite(point.value)) continue;
      low = std::min(low, point.value);
      high = std::max(high, point.value);
    }
  }
  return low > 0 && high > 30 * low ? ChartScale::kLog : otherwise;
}

Series downsample(const Series& points, int num_buckets) {
  if (points.size() <= 2 * static_cast<size_t>(num_buckets)) return points;
  const double first = static_cast<double>(points.front().step);
  const double width = (static_cast<double>(points.back().step) - first + 1) / num_buckets;
  const auto bucket_of = [&](size_t i) {
    return static_cast<int64_t>((static_cast<double>(points[i].step) - first) / width);
  };
  std::vector<size_t> kept = {0, points.size() - 1};
  for (size_t begin = 0, end = 0; begin < points.size(); begin = end) {
    std::optional<size_t> lowest, highest, non_finite;
    for (; end < points.size() && bucket_of(end) == bucket_of(begin); ++end) {
      const double value = points[end].value;
      if (!std::isfinite(value)) {
        if (!non_finite) non_finite = end;
        continue;
      }
      if (!lowest || value < points[*lowest].value) lowest = end;
      if (!highest || value > points[*highest].value) highest = end;
    }
    for (const std::optional<size_t>& index : {lowest, highest, non_finite}) {
      if (index) kept.push_back(*index);
    }
  }
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  Series result;
  for (const size_t index : kept) result.push_back(points[index]);
  return result;
}

std::vector<double> exponential_mean(const Series& points, double span) {
  const double factor = 2 / (span + 1);
  double weighted_sum = 0, weight_sum = 0;
  std::vector<double> means;
  for (const SeriesPoint& point : points) {
    if (!std::isfinite(point.value)) {
      means.push_back(kNan);
      continue;
    }
    weighted_sum = (1 - factor) * weighted_sum + factor * point.value;
    weight_sum = (1 - factor) * weight_sum + factor;
    means.push_back(weighted_sum / weight_sum);
  }
  return means;
}

double smoothing_span(size_t num_points) {
  return std::max(5.0, std::floor(static_cast<double>(num_points) / 50));
}

std::vector<double> axis_ticks(double low, double high, bool is_log, int max_ticks) {
  std::vector<double> ticks;
  const auto add = [&](double value) {
    if (value >= low && value <= high) ticks.push_back(value);
  };
  const double decades = is_log ? std::log10(high) - std::log10(low) : 0;
  if (decades >= 1) {
    const bool has_parts = decades < 2.2;
    const int stride = std::max(1, static_cast<int>(std::ceil(decades / max_ticks)));
    const int first = static_cast<int>(std::floor(std::log10(low) / stride)) * stride;
    const int last = static_cast<int>(std::log10(high)) + 1;
    for (int exponent = first; exponent <= last; exponent += stride) {
      for (const double part : {1.0, 2.0, 5.0}) {
        if (part == 1 || has_parts) add(part * std::pow(10.0, exponent));
      }
    }
    return ticks;
  }
  const double raw_step = (high - low) / max_ticks;
  const double power = std::pow(10.0, std::floor(std::log10(raw_step)));
  double step = 10 * power;
  for (const double part : {5.0, 2.0, 1.0}) {
    if (part * power >= raw_step * (1 - 1e-9)) step = part * power;
  }
  for (double i = std::ceil(low / step); i * step <= high && std::ssize(ticks) <= max_ticks; ++i) add(i * step);
  return ticks;
}

std::string chart_html(const ChartSpec& spec) {
  const std::vector<int64_t> steps = kept_steps(spec.lines);
  std::vector<KeptLine> lines;
  for (const ChartLine& line : spec.lines) lines.push_back(keep(line, steps));
  const Series marks = downsample(spec.marks, kNumBuckets);
  const Plot plot(spec);
  std::string html = std::string(spec.is_bundle ? "<figure class=bundle>" : "<figure>") + "<figcaption><b>" +
                     escape_html(spec.title) + "</b> <small>" + escape_html(spec.unit) + "</small><span class=at>" +
                     (steps.empty() ? "" : "step " + std::to_string(steps.back())) + "</span></figcaption><ul>";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (spec.is_bundle && i != leading_line(lines)) continue;
    const bool has_value = !steps.empty() && lines[i].values.back();
    const bool has_mean = has_value && !lines[i].means.empty() && !std::isnan(lines[i].means.back());
    const std::string note = has_mean ? "mean " + mean_text(lines[i].means.back()) : "";
    html += legend_row(paint("", spec, i), spec.lines[i].label, has_value ? shortest(*lines[i].values.back()) : "",
                       spec.is_bundle ? "of " + std::to_string(lines.size()) + " lines" : note);
  }
  if (!marks.empty()) {
    html += legend_row("class=\"dot marks\"", spec.marks_label, shortest(marks.back().value),
                       "step " + std::to_string(marks.back().step));
  }
  html += non_finite_row(spec) + "</ul>" + plot.html(steps, lines, marks);
  return html + "<script type=\"application/json\">" + data_json(spec, plot, steps, lines, marks) +
         "</script></figure>\n";
}

}  // namespace ballast
