// SPDX-License-Identifier: Apache-2.0
#include "metrics/period_files.h"

#include <cstdio>
#include <system_error>
#include <utility>

#include "files/atomic_file.h"
#include "metrics/jsonl.h"
#include "metrics/number.h"

namespace ballast {

PeriodFiles::PeriodFiles(std::filesystem::path folder, std::string run_name, int64_t period)
    : folder_(std::move(folder)), run_name_(std::move(run_name)), period_(period) {}

int64_t PeriodFiles::reopen(int64_t step) {
  const int64_t first_step = step / period_ * period_;
  std::vector<std::filesystem::path> outdated;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    long long first = 0, last = 0;
    const std::string name = entry.path().filename().string();
    const bool is_ours = std::sscanf(name.c_str(), "metrics_step_%lld_to_step_%lld.txt", &first, &last) == 2;
    if (is_ours && first >= first_step) outdated.push_back(entry.path());
  }
  for (const std::filesystem::path& path : outdated) std::filesystem::remove(path, error);
  return first_step;
}

void PeriodFiles::write(const Record& record) {
  write_line(record.step, json_line(record, run_name_));
}

void PeriodFiles::write_line(int64_t step, const std::string& line) {
  if (!pending_.empty() && step / period_ != first_step_ / period_) finish();
  if (pending_.empty()) first_step_ = step;
  last_step_ = step;
  pending_ += line + '\n';
}

void PeriodFiles::finish() {
  if (pending_.empty()) return;
  const std::string name =
      "metrics_step_" + zero_padded(first_step_, 6) + "_to_step_" + zero_padded(last_step_, 6) + ".txt";
  std::error_code ignored;  // the file reports what is wrong
  std::filesystem::create_directories(folder_, ignored);
  write_file(folder_ / name, pending_, ErrorKind::kData);
  pending_.clear();
}

}  // namespace ballast
