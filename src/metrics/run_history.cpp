// SPDX-License-Identifier: Apache-2.0
#include "metrics/run_history.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "files/file_error.h"

namespace ballast {
namespace {

constexpr double kMaxStep = 9007199254740992.0;  // 2^53: every smaller whole number is a double

double non_finite_value(const nlohmann::ordered_json& json, const std::string& tag) {
  const auto names = json.find("non_finite");
  if (names == json.end() || !names->is_object() || !names->contains(tag)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const nlohmann::ordered_json& name = names->at(tag);
  if (name == "inf") return std::numeric_limits<double>::infinity();
  if (name == "-inf") return -std::numeric_limits<double>::infinity();
  return std::numeric_limits<double>::quiet_NaN();
}

/// The record of a line and its run name, or nothing if the line is damaged.
std::optional<Record> parse_record(const std::string& line, std::string& run_name) {
  const auto json = nlohmann::ordered_json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("kind") || !json["kind"].is_string()) return std::nullopt;
  if (!json.contains("step") || !json["step"].is_number()) return std::nullopt;
  const double step = json["step"].get<double>();
  if (!(std::abs(step) < kMaxStep)) return std::nullopt;
  Record record{json["kind"].get<std::string>(), static_cast<int64_t>(step), {}};
  for (const auto& [tag, value] : json.items()) {
    if (tag == "run_name" && value.is_string()) run_name = value.get<std::string>();
    if (tag == "kind" || tag == "step" || tag == "run_name" || tag == "non_finite") continue;
    if (value.is_number()) record.scalars.emplace_back(tag, value.get<double>());
    if (value.is_null()) record.scalars.emplace_back(tag, non_finite_value(json, tag));
  }
  return record;
}

void add_train(RunHistory& history, Record record) {
  for (const auto& [tag, value] : record.scalars) history.train[tag].push_back({record.step, value});
  if (history.last_train.scalars.empty() || record.step >= history.last_train.step) {
    history.last_train = std::move(record);
  }
}

void sort_by_step(RunHistory& history) {
  for (auto& [tag, series] : history.train) {
    std::stable_sort(series.begin(), series.end(),
                     [](const SeriesPoint& a, const SeriesPoint& b) { return a.step < b.step; });
  }
  std::stable_sort(history.evals.begin(), history.evals.end(),
                   [](const Record& a, const Record& b) { return a.step < b.step; });
}

}  // namespace

const Series& RunHistory::series(const std::string& tag) const {
  static const Series kEmpty;
  const auto found = train.find(tag);
  return found == train.end() ? kEmpty : found->second;
}

RunHistory read_run_history(const std::filesystem::path& metrics_file) {
  std::ifstream source(metrics_file, std::ios::binary);
  if (!source || !std::filesystem::is_regular_file(metrics_file)) {
    throw_file_error(ErrorKind::kData, metrics_file,
                     {.what = "cannot be read",
                      .need = "the metrics of a run",
                      .attempt = "the folder of a run, <base_output_directory>/<run_name>"});
  }
  RunHistory history;
  std::string line, first_damaged;
  int64_t num_damaged = 0;
  for (int64_t number = 1; std::getline(source, line); ++number) {
    std::optional<Record> record = parse_record(line, history.run_name);
    const bool is_torn = !record && source.peek() == std::ifstream::traits_type::eof();
    if (is_torn) {
      history.notes.push_back("line " + std::to_string(number) + ", the last one, is not whole; it is left out");
    } else if (!record) {
      if (num_damaged++ == 0) first_damaged = std::to_string(number);
    } else if (record->kind == "train") {
      add_train(history, *std::move(record));
    } else if (record->kind == "eval") {
      history.evals.push_back(*std::move(record));
    }
  }
  if (num_damaged > 0) {
    history.notes.push_back(std::to_string(num_damaged) + " damaged line(s), the first is line " + first_damaged +
                            "; they are left out");
  }
  if (history.last_train.scalars.empty() && history.evals.empty()) {
    throw_file_error(ErrorKind::kData, metrics_file,
                     {.what = "holds no record", .need = "at least one step or evaluation"});
  }
  sort_by_step(history);
  return history;
}

}  // namespace ballast
