// SPDX-License-Identifier: Apache-2.0
#include "metrics/expert_load_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "files/file_error.h"
#include "metrics/jsonl.h"
#include "metrics/number.h"

namespace ballast {
namespace {

std::string bias_text(double bias) {
  if (!std::isfinite(bias)) return "null";
  const float narrow = static_cast<float>(bias);
  if (static_cast<double>(narrow) != bias) return shortest(bias);
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, narrow).ptr};
}

std::string joined(size_t size, const auto& text_at) {
  std::string list;
  for (size_t i = 0; i < size; ++i) list += (i == 0 ? "" : ",") + text_at(i);
  return "[" + list + "]";
}

/// The last step of a file without damaged lines, where its lines begin, and the size of the file.
struct FileTail {
  bool is_first_step = true;
  int64_t step = 0;
  uint64_t begin = 0, end = 0;
};

FileTail tail_of(const std::filesystem::path& path) {
  FileTail tail;
  std::ifstream source(path, std::ios::binary);
  for (std::string line; std::getline(source, line); tail.end += line.size() + 1) {
    const auto number = nlohmann::json::parse(line).at("step");
    const int64_t step = number.is_number_integer() ? number.get<int64_t>() : 0;  // a fraction is no step of ours
    if (tail.end > 0 && step != tail.step) {
      tail.begin = tail.end;
      tail.is_first_step = false;
    }
    tail.step = step;
  }
  return tail;
}

}  // namespace

std::string load_line(int64_t step, const LayerLoad& load) {
  std::string line = "{\"step\":" + std::to_string(step) + ",\"layer\":" + std::to_string(load.layer) +
                     ",\"routing\":\"" + (load.is_hash_routed ? "hash" : "top_k") + "\",\"counts\":" +
                     joined(load.counts.size(), [&](size_t e) { return std::to_string(load.counts[e]); });
  if (!load.bias.empty()) {
    line += ",\"bias\":" + joined(load.bias.size(), [&](size_t e) { return bias_text(load.bias[e]); });
  }
  return line + "}";
}

ExpertLoadFile::ExpertLoadFile(std::filesystem::path path, int64_t period, std::optional<int64_t> resume_from_step)
    : path_(std::move(path)), period_(period) {
  std::error_code error;
  if (!resume_from_step) {
    std::filesystem::remove(path_, error);
    if (error) throw_system_error(ErrorKind::kData, path_, "cannot be removed", error.value());
    return;
  }
  drop_records(path_, *resume_from_step);
  const FileTail tail = tail_of(path_);
  num_bytes_ = tail.end;
  num_settled_ = tail.is_first_step || tail.step % period_ == 0 ? tail.end : tail.begin;
}

void ExpertLoadFile::write(int64_t step, std::vector<LayerLoad> loads) {
  if (loads.empty()) return;
  if (!file_) file_.emplace(path_, num_bytes_ == 0 ? OutputFile::Start::kEmpty : OutputFile::Start::kAppend);
  if (num_settled_ < num_bytes_) file_->cut(num_settled_);
  num_bytes_ = num_settled_;
  newest_loads_.clear();
  if (num_settled_ == 0 || step % period_ == 0) {
    append(step, loads);
    num_settled_ = num_bytes_;
  } else {
    newest_step_ = step;
    newest_loads_ = std::move(loads);
  }
}

void ExpertLoadFile::append(int64_t step, const std::vector<LayerLoad>& loads) {
  std::string lines;
  for (const LayerLoad& load : loads) lines += load_line(step, load) + '\n';
  file_->write(lines);
  num_bytes_ += lines.size();
}

void ExpertLoadFile::append_newest() {
  if (newest_loads_.empty()) return;
  append(newest_step_, std::exchange(newest_loads_, {}));
}

void ExpertLoadFile::flush() {
  append_newest();
  if (file_) file_->flush();
}

void ExpertLoadFile::sync() {
  append_newest();
  if (file_) file_->sync();
}

void ExpertLoadFile::close() {
  append_newest();
  if (file_) file_->close();
}

}  // namespace ballast
