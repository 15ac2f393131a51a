// SPDX-License-Identifier: Apache-2.0
#include "metrics/balance.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "errors/errors.h"
#include "metrics/number.h"

namespace ballast {
namespace {

const StepLoads* find_step(const RunLoads& run, int64_t step) {
  const std::vector<StepLoads>& steps = run.history.steps;
  const auto found = std::lower_bound(steps.begin(), steps.end(), step,
                                      [](const StepLoads& loads, int64_t value) { return loads.step < value; });
  return found != steps.end() && found->step == step ? &*found : nullptr;
}

/// "0, 100, 200", of many the first and the last ones.
std::string step_list(const std::vector<StepLoads>& steps) {
  constexpr size_t kMostListed = 12, kLastListed = 3;
  std::string list;
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool is_hidden =
        steps.size() > kMostListed && i >= kMostListed - kLastListed && i + kLastListed < steps.size();
    if (is_hidden) {
      if (i == kMostListed - kLastListed) list += ", ...";
      continue;
    }
    list += (list.empty() ? "" : ", ") + std::to_string(steps[i].step);
  }
  return list;
}

const StepLoads* required_step(const RunLoads& run, int64_t step) {
  const StepLoads* found = find_step(run, step);
  if (!found) {
    throw DataError({.where = run.name,
                     .what = "the step is not recorded",
                     .got = "--step " + std::to_string(step),
                     .need = "one of " + step_list(run.history.steps),
                     .attempt = "a smaller expert_load_period records more of them"});
  }
  return found;
}

/// The last step of the first run that the second has too; null where there is none.
const StepLoads* last_common_step(std::span<const RunLoads> runs) {
  const std::vector<StepLoads>& steps = runs.front().history.steps;
  const auto found = std::find_if(steps.rbegin(), steps.rend(),
                                  [&](const StepLoads& loads) { return find_step(runs.back(), loads.step); });
  return found == steps.rend() ? nullptr : &*found;
}

int64_t total_of(const LayerLoad& load) {
  return std::accumulate(load.counts.begin(), load.counts.end(), int64_t{0});
}

/// The layers of all runs by number, null where a run lacks one.
std::map<int64_t, std::vector<const LayerLoad*>> by_layer(const BalanceView& view) {
  std::map<int64_t, std::vector<const LayerLoad*>> layers;
  for (size_t i = 0; i < view.steps.size(); ++i) {
    for (const LayerLoad& load : view.steps[i]->layers) {
      layers.try_emplace(load.layer, view.steps.size(), nullptr).first->second[i] = &load;
    }
  }
  return layers;
}

bool are_all_there(const std::vector<const LayerLoad*>& loads) {
  return std::none_of(loads.begin(), loads.end(), [](const LayerLoad* load) { return load == nullptr; });
}

bool are_all_top_k(const std::vector<const LayerLoad*>& loads) {
  return std::none_of(loads.begin(), loads.end(), [](const LayerLoad* load) { return load->is_hash_routed; });
}

/// What keeps two runs from being compared.
void add_comparison_notes(BalanceView& view) {
  bool has_said_width = false, has_said_total = false, has_said_routing = false;
  std::string lonely;
  for (const auto& [layer, loads] : by_layer(view)) {
    if (!are_all_there(loads)) {
      lonely += (lonely.empty() ? "" : ", ") + std::to_string(layer);
      continue;
    }
    const LayerLoad &a = *loads.front(), &b = *loads.back();
    const std::string name = "layer " + std::to_string(layer);
    const auto differs = [&](bool& has_said, const std::string& what, const std::string& of_a,
                             const std::string& of_b) {
      if (has_said || of_a == of_b) return;
      has_said = true;
      view.notes.push_back(name + " has " + of_a + " " + what + " in A and " + of_b +
                           " in B: the variances do not compare");
    };
    differs(has_said_width, "experts", std::to_string(a.counts.size()), std::to_string(b.counts.size()));
    differs(has_said_total, "assignments", std::to_string(total_of(a)), std::to_string(total_of(b)));
    differs(has_said_routing, "routing", a.is_hash_routed ? "hash" : "top-k", b.is_hash_routed ? "hash" : "top-k");
  }
  if (!lonely.empty()) view.notes.push_back("only one of the runs has these layers: " + lonely);
}

std::string routing_text(const std::vector<const LayerLoad*>& loads) {
  std::string text;
  for (const LayerLoad* load : loads) {
    const std::string routing = !load ? "" : load->is_hash_routed ? "Hash Routed" : "Top-K Routed";
    if (text.empty()) {
      text = routing;
    } else if (!routing.empty() && routing != text) {
      text += " / " + routing;
    }
  }
  return text;
}

std::string improvement_text(double a, double b) {
  if (a == 0) return b == 0 ? "0.00%" : "-";
  const std::string text = fixed(100 * (a - b) / a, 2);
  return (text == "-0.00" ? "0.00" : text) + "%";
}

}  // namespace

BalanceView balance_view(std::span<const RunLoads> runs, std::optional<int64_t> step) {
  BALLAST_CHECK(runs.size() == 1 || runs.size() == 2, "one run, or two to compare");
  BalanceView view;
  if (!step) {
    if (const StepLoads* common = last_common_step(runs)) step = common->step;
  }
  for (const RunLoads& run : runs) {
    view.steps.push_back(step ? required_step(run, *step) : &run.history.steps.back());
  }
  const std::string first = "step " + std::to_string(view.steps.front()->step);
  view.title = step ? first : first + " of A, step " + std::to_string(view.steps.back()->step) + " of B";
  if (!step) view.notes.emplace_back("the runs have no step in common: each shows its last one");
  if (runs.size() == 2) add_comparison_notes(view);
  return view;
}

BalanceTable balance_table(const BalanceView& view) {
  const bool is_pair = view.steps.size() == 2;
  BalanceTable table;
  table.head = {"Layer Index", "Routing Type"};
  const std::vector<std::string> numbers = is_pair ? std::vector<std::string>{"Variance A", "Variance B", "Improvement"}
                                                   : std::vector<std::string>{"Variance", "Max/Mean", "Dead Experts"};
  table.head.insert(table.head.end(), numbers.begin(), numbers.end());
  double variance_sums[2] = {0, 0}, largest_max_over_mean = 0;
  int64_t num_top_k = 0, num_dead = 0;
  for (const auto& [layer, loads] : by_layer(view)) {
    std::vector<std::string> row = {std::to_string(layer), routing_text(loads)};
    double variances[2] = {0, 0};
    for (size_t i = 0; i < loads.size(); ++i) {
      if (loads[i]) variances[i] = load_variance(loads[i]->counts);
      row.push_back(loads[i] ? fixed(variances[i], 2) : "-");
    }
    const bool is_counted = are_all_there(loads) && are_all_top_k(loads);
    num_top_k += is_counted;
    for (size_t i = 0; i < 2; ++i) variance_sums[i] += is_counted ? variances[i] : 0;
    if (is_pair) {
      row.push_back(are_all_there(loads) ? improvement_text(variances[0], variances[1]) : "-");
    } else {
      const double max_over_mean = load_max_over_mean(loads[0]->counts);
      row.push_back(fixed(max_over_mean, 2));
      row.push_back(std::to_string(num_dead_experts(loads[0]->counts)));
      if (is_counted) {
        largest_max_over_mean = std::max(largest_max_over_mean, max_over_mean);
        num_dead += num_dead_experts(loads[0]->counts);
      }
    }
    table.rows.push_back(std::move(row));
  }
  table.notes = view.notes;
  if (num_top_k == 0) {
    table.notes.emplace_back("no layer has a router: there is no total");
    return table;
  }
  table.total = {"TOTAL", std::to_string(num_top_k) + " Top-K", fixed(variance_sums[0], 2)};
  const double count = static_cast<double>(num_top_k);
  std::string means = fixed(variance_sums[0] / count, 2);
  if (is_pair) {
    table.total.push_back(fixed(variance_sums[1], 2));
    table.total.push_back(improvement_text(variance_sums[0], variance_sums[1]));
    means += " and " + fixed(variance_sums[1] / count, 2);
  } else {
    table.total.push_back(fixed(largest_max_over_mean, 2));
    table.total.push_back(std::to_string(num_dead));
  }
  table.notes.push_back("TOTAL: sums over " + std::to_string(num_top_k) + " Top-K layer" + (num_top_k == 1 ? "" : "s") +
                        (is_pair ? ", improvement of the sums; " : ", the largest max/mean; ") + "mean variance " +
                        means);
  return table;
}

std::string balance_text(const BalanceTable& table) {
  std::vector<size_t> widths(table.head.size(), 0);
  const auto widen = [&](const std::vector<std::string>& row) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  };
  widen(table.head);
  widen(table.total);
  for (const std::vector<std::string>& row : table.rows) widen(row);
  std::string rule = "|";
  for (const size_t width : widths) rule += std::string(width + 2, '-') + "|";
  rule += "\n";
  // Text stands left, numbers right.
  const auto line = [&](const std::vector<std::string>& row, bool has_number_first) {
    std::string text = "|";
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      const bool is_left = i == 1 || (i == 0 && !has_number_first);
      text += is_left ? " " + row[i] + space + " |" : " " + space + row[i] + " |";
    }
    return text + "\n";
  };
  std::string text = line(table.head, false) + rule;
  for (const std::vector<std::string>& row : table.rows) text += line(row, true);
  if (!table.total.empty()) text += rule + line(table.total, false);
  for (const std::string& note : table.notes) text += note + "\n";
  return text;
}

}  // namespace ballast
