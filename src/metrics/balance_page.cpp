// SPDX-License-Identifier: Apache-2.0
#include "metrics/balance_page.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "metrics/balance_assets.h"
#include "metrics/number.h"
#include "metrics/report_assets.h"
#include "metrics/report_chart.h"
#include "metrics/report_html.h"

namespace ballast {
namespace {

constexpr size_t kMostCounts = 1'000'000;  // in the maps of a page: below 10 MB of text
constexpr size_t kMostCurveSteps = 400;

/// At most `most` (2 or more) of `size` indices, evenly spaced, with the first and the last one.
std::vector<size_t> spaced_indices(size_t size, size_t most) {
  const size_t count = std::min(size, std::max<size_t>(most, 2));
  std::vector<size_t> indices;
  for (size_t i = 0; i < count; ++i) indices.push_back(count == 1 ? 0 : i * (size - 1) / (count - 1));
  return indices;
}

size_t num_counts(const StepLoads& step) {
  size_t count = 0;
  for (const LayerLoad& load : step.layers) count += load.counts.size();
  return count;
}

size_t num_experts(const StepLoads& step) {
  size_t most = 0;
  for (const LayerLoad& load : step.layers) most = std::max(most, load.counts.size());
  return most;
}

/// The steps of a run that its map shows, the one of the view among them.
std::vector<const StepLoads*> map_steps(const RunLoads& run, const StepLoads* viewed, size_t num_runs) {
  const std::vector<StepLoads>& steps = run.history.steps;
  std::vector<const StepLoads*> shown;
  for (const size_t i : spaced_indices(steps.size(), kMostCounts / num_runs / num_counts(*viewed))) {
    const bool is_past = !shown.empty() && shown.back() < viewed && viewed < &steps[i];
    if (is_past) shown.push_back(viewed);
    shown.push_back(&steps[i]);
  }
  return shown;
}

std::string joined_json(const auto& list, const auto& text_of) {
  std::string json = "[";
  for (const auto& item : list) json += (json.size() == 1 ? "" : ",") + text_of(item);
  return json + "]";
}

std::string map_json(const std::vector<const StepLoads*>& steps, const StepLoads& viewed) {
  std::string json = "{\"step\":" + std::to_string(viewed.step);
  json += ",\"experts\":" + std::to_string(num_experts(viewed)) + ",\"layers\":";
  json += joined_json(viewed.layers, [](const LayerLoad& load) {
    return "{\"layer\":" + std::to_string(load.layer) + ",\"hash\":" + (load.is_hash_routed ? "true" : "false") +
           ",\"experts\":" + std::to_string(load.counts.size()) + "}";
  });
  json += ",\"steps\":" + joined_json(steps, [](const StepLoads* step) { return std::to_string(step->step); });
  const auto count_text = [](int64_t count) { return std::to_string(count); };
  const auto load_text = [&](const LayerLoad& load) { return joined_json(load.counts, count_text); };
  json +=
      ",\"counts\":" + joined_json(steps, [&](const StepLoads* step) { return joined_json(step->layers, load_text); });
  return json + "}";
}

/// A map without its colours: frame, labels, and what the script fills.
std::string map_html(const std::string& title, const std::string& name, const StepLoads& viewed) {
  const size_t num_layers = viewed.layers.size();
  const double row_height = std::clamp(520.0 / static_cast<double>(num_layers), 7.0, 26.0);
  const double height = row_height * static_cast<double>(num_layers);
  std::string html = "<figure class=map><figcaption><b>" + title + "</b> <small>" + escape_html(name) +
                     "</small><span class=at>step " + std::to_string(viewed.step) +
                     "</span></figcaption><ul></ul><div class=plot tabindex=0 role=img aria-label=\"Load of " +
                     std::to_string(num_experts(viewed)) + " experts in " + std::to_string(num_layers) +
                     " layers; the table has the variances\" style=height:" + fixed(height, 0) +
                     "px><canvas></canvas><i class=cell></i>";
  const size_t stride = static_cast<size_t>(std::ceil(15 / row_height));
  for (size_t row = 0; row < num_layers; row += stride) {
    html += "<span class=y style=top:" +
            fixed(100 * (static_cast<double>(row) + 0.5) / static_cast<double>(num_layers), 2) + "%>" +
            std::to_string(viewed.layers[row].layer) + (viewed.layers[row].is_hash_routed ? " #" : "") + "</span>";
  }
  const double width = static_cast<double>(num_experts(viewed));
  for (const double expert : axis_ticks(0, width - 0.5, false, 8)) {
    if (expert != std::floor(expert)) continue;
    html += "<span class=x style=left:" + fixed(100 * (expert + 0.5) / width, 2) + "%>" + fixed(expert, 0) + "</span>";
  }
  return html + "<span class=xlabel>expert</span><div class=tip></div></div></figure>\n";
}

constexpr std::string_view kBarHtml =
    "<div class=bar><button id=play type=button>Play</button><label>Step <input id=step type=range min=0 max=0 value=0>"
    "<output id=at></output></label><div class=key>load over the mean<div><i></i>"
    "<span style=left:0>\xE2\x85\x9B</span><span style=left:16.67%>\xC2\xBC</span><span "
    "style=left:33.33%>\xC2\xBD</span>"
    "<span style=left:50%>1</span><span style=left:66.67%>2</span><span style=left:83.33%>4</span>"
    "<span style=left:100%>8</span></div><i></i>none</div></div>\n"
    "<noscript><p class=note>The maps need JavaScript; curves and table do not.</p></noscript>\n";

/// value_at(step) of the steps that have one, thinned out where there are many.
Series series_of(const RunLoads& run, const auto& value_at) {
  Series series;
  for (const size_t i : spaced_indices(run.history.steps.size(), kMostCurveSteps)) {
    const StepLoads& step = run.history.steps[i];
    if (const double value = value_at(step); std::isfinite(value)) series.push_back({step.step, value});
  }
  return series;
}

/// Value of a tag of load_tags() over the layers with a router, which training can balance; over all where there are
/// none.
double tag_of(const StepLoads& step, const std::string& tag) {
  std::vector<LayerLoad> routed;
  std::copy_if(step.layers.begin(), step.layers.end(), std::back_inserter(routed),
               [](const LayerLoad& load) { return !load.is_hash_routed; });
  const Scalars tags = load_tags(routed.empty() ? step.layers : routed);
  const auto found =
      std::find_if(tags.begin(), tags.end(), [&](const auto& entry) { return entry.first == "learning/" + tag; });
  return found == tags.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

std::vector<ChartLine> variance_lines(const RunLoads& run) {
  std::vector<ChartLine> lines;
  const std::vector<LayerLoad>& layers = run.history.steps.front().layers;
  for (size_t row = 0; row < layers.size(); ++row) {
    lines.push_back({"layer " + std::to_string(layers[row].layer) + (layers[row].is_hash_routed ? " (hash)" : ""),
                     series_of(run, [&](const StepLoads& step) { return load_variance(step.layers[row].counts); }),
                     /*is_smoothed=*/false});
  }
  return lines;
}

std::string run_title(size_t run, size_t num_runs, const std::string& title) {
  return num_runs == 1 ? title : title + " " + std::string(1, "AB"[run]);
}

struct LoadCurve {
  const char* tag;
  const char* title;
  const char* label;
  const char* unit;
};
constexpr LoadCurve kLoadCurves[] = {
    {"moe_load_variance_mean", "Mean variance", "variance", "mean of the layers"},
    {"moe_load_max_over_mean", "Largest load over the mean", "max/mean", "largest of the layers"},
    {"moe_load_entropy", "Entropy", "entropy", "mean of the layers, 1: even"},
    {"moe_dead_experts", "Dead experts", "dead", "sum of the layers"},
};

/// Variance by layer for each run, on one scale; then numbers of all layers, with the runs in one chart.
std::string curves_html(std::span<const RunLoads> runs) {
  std::vector<std::vector<ChartLine>> lines;
  std::vector<ChartLine> all;
  for (const RunLoads& run : runs) {
    lines.push_back(variance_lines(run));
    all.insert(all.end(), lines.back().begin(), lines.back().end());
  }
  const ChartScale scale = scale_for(all, ChartScale::kFromZero);
  std::vector<double> values;
  for (const ChartLine& line : all) {
    for (const SeriesPoint& point : line.points) values.push_back(point.value);
  }
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  std::string html = "<section class=charts>\n";
  for (size_t i = 0; i < runs.size(); ++i) {
    ChartSpec spec;
    spec.title = run_title(i, runs.size(), "Variance by layer");
    spec.unit = scale == ChartScale::kLog ? "log scale" : "";
    spec.scale = scale;
    spec.lines = lines[i];
    spec.is_bundle = true;
    spec.shown_values = {*low, *high};
    html += chart_html(spec);
  }
  for (const LoadCurve& curve : kLoadCurves) {
    ChartSpec spec;
    spec.title = curve.title;
    for (size_t i = 0; i < runs.size(); ++i) {
      const Series series = series_of(runs[i], [&](const StepLoads& step) { return tag_of(step, curve.tag); });
      if (!series.empty())
        spec.lines.push_back({runs.size() == 1 ? curve.label : std::string(1, "AB"[i]), series, false});
    }
    if (spec.lines.empty()) continue;
    spec.scale = scale_for(spec.lines, ChartScale::kFromZero);
    spec.unit = std::string(curve.unit) + (spec.scale == ChartScale::kLog ? ", log scale" : "");
    html += chart_html(spec);
  }
  return html +
         "</section>\n<p class=quiet>Variance by layer: blue is the first layer, orange the last; point at a line "
         "or use the arrow keys. The other curves are of the layers with a router, where there are any.</p>\n";
}

std::string rounded(double value) {
  if (std::isnan(value)) return "-";
  return value >= 1000 ? fixed(value, 0) : general(value, 3);
}

std::string view_tiles(const BalanceView& view) {
  // One number a run, with an arrow between the two of a pair.
  const auto tag_text = [&](const std::string& tag) {
    std::string text;
    for (const StepLoads* step : view.steps) {
      text += (text.empty() ? "" : " \xE2\x86\x92 ") + rounded(tag_of(*step, tag));
    }
    return text;
  };
  const StepLoads& first = *view.steps.front();
  const auto num_hash = std::count_if(first.layers.begin(), first.layers.end(),
                                      [](const LayerLoad& load) { return load.is_hash_routed; });
  std::string html = "<section class=tiles>";
  html += tile_html("Layers with experts", std::to_string(first.layers.size()),
                    num_hash > 0 ? std::to_string(num_hash) + " routed by token id (#)" : "all with a router");
  const std::vector<int64_t>& counts = first.layers.back().counts;
  const double total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  html += tile_html("Experts", std::to_string(num_experts(first)),
                    general(total / static_cast<double>(counts.size()), 6) + " assignments each at balance");
  html += tile_html("Mean variance", tag_text("moe_load_variance_mean"), "of the Top-K layers; even: 0");
  html += tile_html("Largest over mean", tag_text("moe_load_max_over_mean"), "of a Top-K layer; even: 1");
  html += tile_html("Dead experts", tag_text("moe_dead_experts"), "in the Top-K layers");
  html += tile_html("Entropy", tag_text("moe_load_entropy"), "of the Top-K layers; even: 1");
  return html + "</section>\n";
}

std::string table_html(const BalanceView& view) {
  const BalanceTable table = balance_table(view);
  std::string html = "<h2>Table, " + escape_html(view.title) + "</h2><div class=\"table loads\"><table><tr>";
  for (const std::string& title : table.head) html += "<th>" + escape_html(title) + "</th>";
  html += "</tr>";
  const auto add_row = [&](const std::vector<std::string>& row, const std::string& tag) {
    html += tag;
    for (const std::string& text : row) html += cell_html(text);
    html += "</tr>\n";
  };
  for (const std::vector<std::string>& row : table.rows) add_row(row, "<tr>");
  if (!table.total.empty()) add_row(table.total, "<tr class=total>");
  html += "</table></div>";
  for (const std::string& note : table.notes) html += "<p class=quiet>" + escape_html(note) + "</p>";
  return html;
}

}  // namespace

std::string balance_page(std::span<const RunLoads> runs, const BalanceView& view) {
  PageParts parts;
  parts.heading = runs.size() == 1 ? "Expert load of " + runs[0].name : "Expert load of A and B";
  parts.subtitle = runs.size() == 1 ? "Ballast training run, " + view.title
                                    : "A: " + runs[0].name + ", B: " + runs[1].name + ", " + view.title;
  parts.style = kBalanceStyle;
  parts.body = view_tiles(view);
  for (const RunLoads& run : runs) {
    for (const std::string& note : run.history.notes) {
      parts.body += "<p class=note>" + escape_html(expert_load_path(run.name).string() + ": " + note) + "</p>";
    }
  }
  for (const std::string& note : view.notes) parts.body += "<p class=note>" + escape_html(note) + "</p>";
  parts.body += kBarHtml;
  std::string maps, json, shares;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::vector<const StepLoads*> steps = map_steps(runs[i], view.steps[i], runs.size());
    maps += map_html(run_title(i, runs.size(), "Load by layer and expert"), runs[i].name, *view.steps[i]);
    json += (json.empty() ? "" : ",") + map_json(steps, *view.steps[i]);
    const size_t num_steps = runs[i].history.steps.size();
    shares += run_title(i, runs.size(), i == 0 ? "Map" : ", map") + ": " + std::to_string(steps.size()) + " of " +
              std::to_string(num_steps) +
              " recorded steps, curves: " + std::to_string(std::min(num_steps, kMostCurveSteps));
  }
  parts.body += "<section class=maps>\n" + maps + "</section>\n";
  parts.body += "<p class=quiet>" + shares +
                ". Point, tap or use the arrow keys for exact values. # marks layers routed "
                "by token id.</p>\n";
  parts.body += curves_html(runs) + table_html(view);
  parts.body += "<script type=\"application/json\" id=loads>[" + json + "]</script>\n";
  const std::string script = std::string(kReportScript) + std::string(kBalanceScript);
  parts.script = script;
  return html_page(parts);
}

}  // namespace ballast
