// SPDX-License-Identifier: Apache-2.0
#include "metrics/report.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "metrics/number.h"
#include "metrics/report_assets.h"
#include "metrics/report_chart.h"
#include "metrics/report_html.h"

namespace ballast {
namespace {

/// `count` with a suffix: 950, 12.3k, 4.56M.
std::string count_text(double count) {
  constexpr const char* kSuffixes[] = {"", "k", "M", "G", "T"};
  size_t i = 0;
  while (std::abs(count) >= 999.5 && i + 1 < std::size(kSuffixes)) count /= 1000, ++i;
  return general(count, 3) + kSuffixes[i];
}

std::string duration_text(double seconds) {
  if (seconds < 59.95) return general(seconds, 3) + " s";
  const int64_t whole = std::llround(seconds);
  if (whole < 3600) return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  return std::to_string(whole / 3600) + " h " + std::to_string(whole % 3600 / 60) + " min";
}

double sum_of(const Series& series) {
  double sum = 0;
  for (const SeriesPoint& point : series) sum += std::isfinite(point.value) ? point.value : 0;
  return sum;
}

double median_of(const Series& series) {
  std::vector<double> values;
  for (const SeriesPoint& point : series) {
    if (std::isfinite(point.value)) values.push_back(point.value);
  }
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool has_values(const Series& series) {
  return std::any_of(series.begin(), series.end(), [](const SeriesPoint& point) { return point.value != 0; });
}

/// Equal but for the rounding of float32 sums.
bool are_equal(const Series& a, const Series& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const SeriesPoint& x, const SeriesPoint& y) {
    if (x.step != y.step) return false;
    if (!std::isfinite(x.value) || !std::isfinite(y.value)) {
      return x.value == y.value || (std::isnan(x.value) && std::isnan(y.value));
    }
    return std::abs(x.value - y.value) <= 1e-6 * std::abs(x.value);
  });
}

Series eval_series(const RunHistory& history, const std::string& tag) {
  Series series;
  for (const Record& record : history.evals) {
    if (const std::optional<double> value = record.get(tag)) series.push_back({record.step, *value});
  }
  return series;
}

/// The evaluation of the lowest finite loss, the first of equals; null where there is none.
const Record* best_eval(const RunHistory& history) {
  const Record* best = nullptr;
  for (const Record& record : history.evals) {
    const std::optional<double> loss = record.get("eval/avg_loss");
    if (loss && std::isfinite(*loss) && (best == nullptr || *loss < *best->get("eval/avg_loss"))) best = &record;
  }
  return best;
}

std::string tiles_html(const RunHistory& history) {
  std::string html = "<section class=tiles>";
  const Series& loss = history.series("learning/loss");
  if (!loss.empty()) {
    const size_t skipped = static_cast<size_t>(sum_of(history.series("optim/step_skipped")));
    html += tile_html("Steps", std::to_string(loss.size()),
                      std::to_string(loss.front().step) + " to " + std::to_string(loss.back().step) +
                          (skipped > 0 ? ", " + std::to_string(skipped) + " skipped" : ""));
    const Record& last = history.last_train;
    const std::optional<double> lm_loss = last.get("learning/lm_loss");
    html += tile_html("Last loss", general(lm_loss.value_or(loss.back().value), 5),
                      lm_loss ? "perplexity " + general(std::exp(*lm_loss), 5) : "");
  }
  if (const Record* best = best_eval(history)) {
    const double best_loss = *best->get("eval/avg_loss");
    html += tile_html("Best evaluation", general(best_loss, 5),
                      "perplexity " + general(std::exp(best_loss), 5) + ", step " + std::to_string(best->step));
  }
  if (has_values(history.series("learning/total_weights"))) {
    html += tile_html("Targets", count_text(sum_of(history.series("learning/total_weights"))), "tokens that counted");
  }
  if (has_values(history.series("perf/per_device_tokens_per_sec"))) {
    html += tile_html("Tokens/s", count_text(median_of(history.series("perf/per_device_tokens_per_sec"))),
                      "a device, median of the steps");
  }
  if (has_values(history.series("perf/step_time_seconds"))) {
    html += tile_html("Time", duration_text(sum_of(history.series("perf/step_time_seconds"))), "in training steps");
  }
  return html + "</section>";
}

/// Two lines, or the first one named after both where they are equal.
std::vector<ChartLine> two_lines(const std::string& first_label, const Series& first, const std::string& second_label,
                                 const Series& second) {
  if (are_equal(first, second)) return {{first_label + " = " + second_label, first}};
  std::vector<ChartLine> lines;
  if (!first.empty()) lines.push_back({first_label, first});
  if (!second.empty()) lines.push_back({second_label, second});
  return lines;
}

struct ExtraChart {
  const char* tag;
  const char* title;
  const char* unit;
};
/// Shown where they are not zero throughout.
constexpr ExtraChart kExtraCharts[] = {
    {"learning/z_loss", "z-loss", "nats a token"},
    {"learning/moe_lb_loss", "Expert balance loss", "nats, weighted"},
    {"learning/router_z_loss", "Router z-loss", "nats, weighted"},
    {"learning/moe_load_variance_mean", "Variance of expert load", "mean of the layers with a router"},
    {"learning/moe_load_max_over_mean", "Largest expert load over the mean", "of all layers"},
    {"learning/moe_dead_experts", "Experts without load", "sum of all layers"},
    {"learning/moe_dropped_share", "Choices dropped by full experts", "share"},
    {"learning/mtp_loss", "Multi-token prediction loss", "nats a token, weighted"},
    {"learning/indexer_loss", "Indexer loss", "nats, weighted"},
    {"learning/dpo_loss", "DPO loss", "nats a pair"},
    {"learning/reward_accuracy", "Reward accuracy", "share of pairs"},
};

std::vector<ChartSpec> charts_of(const RunHistory& history) {
  std::vector<ChartSpec> charts;
  const auto add = [&](ChartSpec spec) {
    std::erase_if(spec.lines, [](const ChartLine& line) { return line.points.empty(); });
    if (!spec.lines.empty() || !spec.marks.empty()) charts.push_back(std::move(spec));
  };
  const auto label_of = [](const std::string& tag) { return tag.substr(tag.find('/') + 1); };
  add({"Loss", "nats a token", ChartScale::kLinear,
       two_lines("loss", history.series("learning/loss"), "lm_loss", history.series("learning/lm_loss")), "evaluation",
       eval_series(history, "eval/avg_loss")});
  add({"Perplexity",
       "log scale",
       ChartScale::kLog,
       {{"perplexity", history.series("learning/perplexity")}},
       "evaluation",
       eval_series(history, "eval/avg_perplexity")});
  add({"Learning rate",
       "",
       ChartScale::kFromZero,
       {{"learning_rate", history.series("learning/current_learning_rate"), /*is_smoothed=*/false}},
       {},
       {}});
  const std::vector<ChartLine> norms =
      two_lines("raw", history.series("learning/raw_grad_norm"), "clipped", history.series("learning/grad_norm"));
  const ChartScale norm_scale = scale_for(norms, ChartScale::kFromZero);
  add({"Gradient norm", norm_scale == ChartScale::kLog ? "L2, log scale" : "L2", norm_scale, norms, {}, {}});
  add({"Speed",
       "tokens/s a device",
       ChartScale::kFromZero,
       {{"tokens/s", history.series("perf/per_device_tokens_per_sec")}},
       {},
       {}});
  for (const ExtraChart& extra : kExtraCharts) {
    const Series& series = history.series(extra.tag);
    if (!has_values(series)) continue;
    const std::vector<ChartLine> lines = {{label_of(extra.tag), series}};
    const ChartScale scale = scale_for(lines, ChartScale::kLinear);
    add({extra.title,
         std::string(extra.unit) + (scale == ChartScale::kLog ? ", log scale" : ""),
         scale,
         lines,
         {},
         {}});
  }
  return charts;
}

struct EvalColumn {
  const char* tag;
  const char* title;
  int digits;  ///< significant ones
};
constexpr EvalColumn kEvalColumns[] = {
    {"eval/avg_loss", "loss", 6},
    {"eval/avg_perplexity", "perplexity", 6},
    {"eval/total_weights", "targets", 12},
    {"eval/avg_z_loss", "z-loss", 4},
    {"eval/avg_moe_lb_loss", "balance loss", 4},
    {"eval/avg_indexer_loss", "indexer loss", 4},
    {"eval/avg_mtp_loss", "MTP loss", 4},
    {"eval/avg_mtp_acceptance_rate_percent", "MTP accepted %", 4},
    {"eval/avg_dpo_reward_accuracy", "reward accuracy", 4},
};
constexpr size_t kMostEvalRows = 200;

/// The newest evaluations first.
std::string evals_html(const RunHistory& history) {
  if (history.evals.empty()) return {};
  std::vector<EvalColumn> columns;
  for (const EvalColumn& column : kEvalColumns) {
    if (has_values(eval_series(history, column.tag))) columns.push_back(column);
  }
  std::string html = "<h2>Evaluations</h2><div class=table><table><tr><th>step</th>";
  for (const EvalColumn& column : columns) html += "<th>" + std::string(column.title) + "</th>";
  html += "</tr>";
  const Record* best = best_eval(history);
  const size_t num_rows = std::min(history.evals.size(), kMostEvalRows);
  for (size_t i = 0; i < num_rows; ++i) {
    const Record& record = history.evals[history.evals.size() - 1 - i];
    html += &record == best ? "<tr class=best>" : "<tr>";
    html += cell_html(std::to_string(record.step) + (&record == best ? " (best)" : ""));
    for (const EvalColumn& column : columns) {
      const std::optional<double> value = record.get(column.tag);
      html += cell_html(value ? general(*value, column.digits) : "");
    }
    html += "</tr>";
  }
  html += "</table></div>";
  if (num_rows < history.evals.size()) {
    html += "<p class=quiet>The newest " + std::to_string(num_rows) + " of " + std::to_string(history.evals.size()) +
            "; all are in metrics.jsonl.</p>";
  }
  return html;
}

constexpr size_t kMostLastRows = 1000;

std::string last_step_html(const RunHistory& history) {
  const Record& last = history.last_train;
  if (last.scalars.empty()) return {};
  std::string html = "<h2>Step " + std::to_string(last.step) + ", the last one</h2><div class=\"table tags\"><table>";
  html += "<tr><th>tag</th><th>value</th></tr>";
  for (size_t i = 0; i < std::min(last.scalars.size(), kMostLastRows); ++i) {
    html += "<tr>" + cell_html(last.scalars[i].first) + cell_html(shortest(last.scalars[i].second)) + "</tr>";
  }
  return html + "</table></div>";
}

/// Where more about the experts is.
std::string experts_html(const RunHistory& history) {
  if (history.series("learning/moe_load_entropy").empty()) return {};
  return "<p class=quiet>Load by layer and expert: <b>ballast balance</b> with the folder of this run writes "
         "expert_load.html.</p>";
}

std::string smoothing_html(const RunHistory& history) {
  const size_t num_steps = history.series("learning/loss").size();
  return "<p class=quiet>Thin lines: every step (long runs: the lowest and the highest value of each stretch). Thick "
         "lines: their exponential mean over " +
         fixed(smoothing_span(num_steps), 0) + " steps. Point, tap or use the arrow keys for exact values.</p>";
}

}  // namespace

std::string report_page(const RunHistory& history, const std::string& written_at) {
  PageParts parts;
  parts.heading = history.run_name;
  parts.subtitle = "Ballast training run" + (written_at.empty() ? "" : ", last record written " + written_at);
  parts.script = kReportScript;
  parts.body = tiles_html(history);
  for (const std::string& note : history.notes) {
    parts.body += "<p class=note>metrics.jsonl: " + escape_html(note) + "</p>";
  }
  parts.body += "\n<section class=charts>\n";
  for (const ChartSpec& chart : charts_of(history)) parts.body += chart_html(chart);
  parts.body += "</section>" + smoothing_html(history) + experts_html(history) + "\n" + evals_html(history) + "\n" +
                last_step_html(history);
  return html_page(parts);
}

}  // namespace ballast
