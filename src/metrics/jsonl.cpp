// SPDX-License-Identifier: Apache-2.0
#include "metrics/jsonl.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "errors/log.h"
#include "files/atomic_file.h"
#include "metrics/number.h"

namespace ballast {
namespace {

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// The step of a line's record, or nothing if the line is damaged.
std::optional<double> step_of(const nlohmann::json& record) {
  if (!record.is_object() || !record.contains("step") || !record["step"].is_number()) return std::nullopt;
  return record["step"].get<double>();
}

/// Brings the file into the state to append to.
std::filesystem::path prepared(const std::filesystem::path& path, std::optional<int64_t> resume_from_step) {
  if (resume_from_step) drop_records(path, *resume_from_step);
  return path;
}

}  // namespace

std::string json_line(const Record& record, const std::string& run_name) {
  std::string line = "{\"kind\":" + quoted(record.kind) + ",\"step\":" + std::to_string(record.step) +
                     ",\"run_name\":" + quoted(run_name);
  std::string non_finite;
  for (const auto& [tag, value] : record.scalars) {
    const std::string key = quoted(tag);
    if (std::isfinite(value)) {
      line += "," + key + ":" + shortest(value);
    } else {
      line += "," + key + ":null";
      non_finite += (non_finite.empty() ? "" : ",") + key + ":\"" + shortest(value) + "\"";
    }
  }
  if (!non_finite.empty()) line += ",\"non_finite\":{" + non_finite + "}";
  return line + "}";
}

std::vector<RecordLine> record_lines_from(const std::filesystem::path& path, int64_t first_step) {
  std::vector<RecordLine> lines;
  std::ifstream source(path, std::ios::binary);
  for (std::string line; std::getline(source, line);) {
    const auto record = nlohmann::json::parse(line, nullptr, false);
    const auto step = step_of(record);
    if (!step || *step < static_cast<double>(first_step) || !record.contains("kind")) continue;
    lines.push_back({record["kind"].get<std::string>(), static_cast<int64_t>(*step), line});
  }
  return lines;
}

void drop_records(const std::filesystem::path& path, int64_t resume_from_step) {
  if (!std::filesystem::is_regular_file(path)) return;
  std::ifstream source(path, std::ios::binary);
  AtomicFile kept(path, ErrorKind::kData);
  std::string line;
  for (int64_t number = 1; std::getline(source, line); ++number) {
    const auto step = step_of(nlohmann::json::parse(line, nullptr, false));
    if (step && *step < static_cast<double>(resume_from_step)) {
      kept.append(line + '\n');
    } else if (!step && source.peek() != std::ifstream::traits_type::eof()) {
      log_warning(path.string() + ":" + std::to_string(number) + " is not a metrics record; it is dropped");
    }
  }
  kept.commit();
}

JsonLines::JsonLines(const std::filesystem::path& path, std::string run_name, std::optional<int64_t> resume_from_step)
    : run_name_(std::move(run_name)),
      file_(prepared(path, resume_from_step),
            resume_from_step ? OutputFile::Start::kAppend : OutputFile::Start::kEmpty) {}

void JsonLines::write(const Record& record) {
  file_.write(json_line(record, run_name_) + '\n');
}

}  // namespace ballast
