// SPDX-License-Identifier: Apache-2.0
#include "metrics/expert_load_history.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "files/file_error.h"
#include "files/json_text.h"

namespace ballast {
namespace {

constexpr int64_t kLargestNumber = int64_t{1} << 53;  // every smaller whole number is a double

/// Parts of one line; every fault names file and line.
class LoadLine {
 public:
  LoadLine(const std::filesystem::path& path, int64_t number, nlohmann::json json)
      : path_(path), number_(number), json_(std::move(json)) {}

  [[noreturn]] void fail(const std::string& what, const std::string& got, const std::string& need) const {
    throw_file_error(ErrorKind::kData, path_.string() + ":" + std::to_string(number_),
                     {.what = what, .got = shortened(got), .need = need});
  }

  int64_t number(const char* name) const {
    const std::optional<int64_t> value = json_.contains(name) ? whole(json_[name]) : std::nullopt;
    if (!value) fail("has no valid \"" + std::string(name) + "\"", text_of(name), "a whole number from 0");
    return *value;
  }

  LayerLoad load() const {
    LayerLoad load;
    load.layer = number("layer");
    load.is_hash_routed = is_hash_routed();
    load.counts = counts();
    if (json_.contains("bias")) load.bias = bias(load.counts.size());
    return load;
  }

 private:
  static std::optional<int64_t> whole(const nlohmann::json& value) {
    if (!value.is_number_unsigned()) return std::nullopt;
    const auto number = value.get<uint64_t>();
    return number <= uint64_t{kLargestNumber} ? std::optional(static_cast<int64_t>(number)) : std::nullopt;
  }
  static std::string shortened(const std::string& text) {
    constexpr size_t kLongest = 60;
    return text.size() > kLongest ? text.substr(0, kLongest) + "..." : text;
  }
  std::string text_of(const char* name) const {
    if (!json_.contains(name)) return "none";
    return json_[name].dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  }

  bool is_hash_routed() const {
    const bool is_hash = json_.contains("routing") && json_["routing"] == "hash";
    if (!is_hash && (!json_.contains("routing") || json_["routing"] != "top_k")) {
      fail("has no valid \"routing\"", text_of("routing"), "\"top_k\" or \"hash\"");
    }
    return is_hash;
  }

  std::vector<int64_t> counts() const {
    std::vector<int64_t> counts;
    int64_t total = 0;
    if (json_.contains("counts") && json_["counts"].is_array()) {
      for (const nlohmann::json& value : json_["counts"]) {
        const std::optional<int64_t> count = whole(value);
        if (!count) fail("has a count that is none", value.dump(-1, ' ', true), "a whole number from 0");
        counts.push_back(*count);
        total += *count;
        if (total > kLargestNumber) fail("has counts that are too large together", value.dump(), "at most 2^53");
      }
    }
    if (counts.empty()) fail("has no valid \"counts\"", text_of("counts"), "a list with a number for each expert");
    return counts;
  }

  std::vector<double> bias(size_t num_experts) const {
    const nlohmann::json& list = json_["bias"];
    if (!list.is_array() || list.size() != num_experts) {
      fail("has no valid \"bias\"", list.is_array() ? std::to_string(list.size()) + " numbers" : text_of("bias"),
           std::to_string(num_experts) + " numbers, one an expert as in \"counts\"");
    }
    std::vector<double> bias;
    for (const nlohmann::json& value : list) {
      if (!value.is_number() && !value.is_null())
        fail("has a bias that is no number", value.dump(-1, ' ', true), "a number");
      bias.push_back(value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>());
    }
    return bias;
  }

  const std::filesystem::path& path_;
  int64_t number_;
  nlohmann::json json_;
};

std::optional<nlohmann::json> parsed(const std::string& text) {
  try {
    return parse_json(text);
  } catch (const nlohmann::json::parse_error&) {
    return std::nullopt;
  }
}

bool is_same_layer(const LayerLoad& a, const LayerLoad& b) {
  return a.layer == b.layer && a.is_hash_routed == b.is_hash_routed && a.counts.size() == b.counts.size();
}

/// Whether the layers of `step` are the first ones of `first`, or all of them.
bool begins_as(const StepLoads& step, const StepLoads& first) {
  return step.layers.size() <= first.layers.size() &&
         std::equal(step.layers.begin(), step.layers.end(), first.layers.begin(), is_same_layer);
}

void add_load(LoadHistory& history, const LoadLine& line) {
  const int64_t step = line.number("step");
  LayerLoad load = line.load();
  if (history.steps.empty() || step != history.steps.back().step) {
    const bool is_later = history.steps.empty() || step > history.steps.back().step;
    if (!is_later) line.fail("goes back to an earlier step", std::to_string(step), "ascending steps");
    if (!history.steps.empty() && history.steps.back().layers.size() < history.steps.front().layers.size()) {
      line.fail("begins a step where the one before lacks layers", std::to_string(history.steps.back().layers.size()),
                std::to_string(history.steps.front().layers.size()) + " layers, as in the first step");
    }
    history.steps.push_back({step, {}});
  }
  std::vector<LayerLoad>& layers = history.steps.back().layers;
  if (!layers.empty() && load.layer <= layers.back().layer) {
    line.fail("repeats a layer of its step", std::to_string(load.layer), "ascending layers");
  }
  layers.push_back(std::move(load));
  if (!begins_as(history.steps.back(), history.steps.front())) {
    line.fail("does not fit the first step of the file", "layer " + std::to_string(layers.back().layer),
              "the same layers, routing and number of experts in every step");
  }
}

constexpr const char* kAttempt =
    "the folder of a run of a model with experts; expert_load_period says how many steps are recorded";

}  // namespace

LoadHistory read_expert_load(const std::filesystem::path& path) {
  std::ifstream source(path, std::ios::binary);
  if (!source || !std::filesystem::is_regular_file(path)) {
    throw_file_error(ErrorKind::kData, path,
                     {.what = "cannot be read", .need = "the expert load of a run", .attempt = kAttempt});
  }
  LoadHistory history;
  std::string text;
  for (int64_t number = 1; std::getline(source, text); ++number) {
    const bool is_torn = source.eof();  // no line break ends it
    const std::optional<nlohmann::json> json = parsed(text);
    if (!json && is_torn) {
      history.notes.push_back("line " + std::to_string(number) + ", the last one, is not whole; it is left out");
      continue;
    }
    const LoadLine line(path, number, json.value_or(nullptr));
    if (!json || !json->is_object())
      line.fail("is no record", text, "a JSON object with step, layer, routing and counts");
    add_load(history, line);
  }
  if (!history.steps.empty() && history.steps.back().layers.size() < history.steps.front().layers.size()) {
    history.notes.push_back("step " + std::to_string(history.steps.back().step) +
                            ", the last one, lacks layers; it is left out");
    history.steps.pop_back();
  }
  if (history.steps.empty()) {
    throw_file_error(ErrorKind::kData, path,
                     {.what = "holds no record", .need = "at least one step", .attempt = kAttempt});
  }
  return history;
}

std::filesystem::path expert_load_path(const std::filesystem::path& run) {
  return std::filesystem::is_directory(run) ? run / "expert_load.jsonl" : run;
}

}  // namespace ballast
