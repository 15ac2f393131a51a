// SPDX-License-Identifier: Apache-2.0
#include "metrics/period_files.h"

#include <system_error>
#include <utility>

#include "files/atomic_file.h"
#include "metrics/jsonl.h"
#include "metrics/number.h"

namespace ballast {

PeriodFiles::PeriodFiles(std::filesystem::path folder, std::string run_name, int64_t period)
    : folder_(std::move(folder)), run_name_(std::move(run_name)), period_(period) {}

void PeriodFiles::write(const Record& record) {
  if (!pending_.empty() && record.step / period_ != first_step_ / period_) finish();
  if (pending_.empty()) first_step_ = record.step;
  last_step_ = record.step;
  pending_ += json_line(record, run_name_) + '\n';
}

void PeriodFiles::finish() {
  if (pending_.empty()) return;
  const std::string name =
      "metrics_step_" + zero_padded(first_step_, 6) + "_to_step_" + zero_padded(last_step_, 6) + ".txt";
  std::error_code ignored;  // the file reports what is wrong
  std::filesystem::create_directories(folder_, ignored);
  AtomicFile file(folder_ / name, ErrorKind::kData);
  file.append(pending_);
  file.commit();
  pending_.clear();
}

}  // namespace ballast
