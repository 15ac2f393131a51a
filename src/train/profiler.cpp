// SPDX-License-Identifier: Apache-2.0
#include "train/profiler.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <exception>
#include <set>
#include <string>
#include <utility>

#include "config/config.h"
#include "errors/log.h"
#include "files/file_error.h"

namespace ballast {

bool ProfileWindows::starts_at(int64_t step) const {
  if (num_steps <= 0 || step < first_step || step >= end_step) return false;
  return period > 0 ? (step - first_step) % period == 0 : step == first_step;
}

bool ProfileWindows::ends_after(int64_t step) const {
  if (num_steps <= 0 || step < first_step || step >= end_step) return false;
  const int64_t index = period > 0 ? (step - first_step) % period : step - first_step;
  return index == num_steps - 1 || (index < num_steps && step == end_step - 1);
}

ProfileWindows profile_windows(const Config& config, int64_t first_trained_step) {
  if (config.profiler.empty()) return {};
  return {.first_step = first_trained_step + config.skip_first_n_steps_for_profiler,
          .num_steps = config.profiler_steps,
          .period = config.profile_periodically_period,
          .end_step = config.steps};
}

Profiler::Profiler(const ProfileWindows& windows, std::filesystem::path folder)
    : windows_(windows), folder_(std::move(folder)) {
  if (windows_.num_steps <= 0) return;
  if (windows_.first_step >= windows_.end_step) {
    log_warning("skip_first_n_steps_for_profiler: the run ends before the profile starts");
    return;
  }
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) throw_system_error(ErrorKind::kData, folder_, "cannot be created", error.value());
}

Profiler::~Profiler() {
  if (!start_step_) return;
  try {
    save();
  } catch (const std::exception& error) {
    log_error(error.what());
  }
}

void Profiler::before_step(int64_t step) {
  if (!start_step_ && windows_.starts_at(step)) start(step);
  if (!start_step_) return;
  mark_ = std::make_unique<at::RecordFunction>(at::RecordScope::USER_SCOPE);
  mark_->before("train step " + std::to_string(step));
}

void Profiler::start(int64_t step) {
  namespace kineto = torch::profiler::impl;
  const kineto::ProfilerConfig config(kineto::ProfilerState::KINETO, /*report_input_shapes=*/true);
  const std::set<kineto::ActivityType> activities = {kineto::ActivityType::CPU};
  torch::autograd::profiler::prepareProfiler(config, activities);
  torch::autograd::profiler::enableProfiler(config, activities);
  start_step_ = step;
}

void Profiler::after_step(int64_t step) {
  if (!start_step_) return;
  mark_.reset();
  last_step_ = step;
  if (windows_.ends_after(step)) save();
}

void Profiler::save() {
  const int64_t first = *start_step_;
  start_step_.reset();
  mark_.reset();
  const auto result = torch::autograd::profiler::disableProfiler();
  if (last_step_ < first) return;
  const std::filesystem::path path =
      folder_ / ("steps_" + std::to_string(first) + "_to_" + std::to_string(last_step_) + ".pt.trace.json");
  result->save(path.string());
  // Kineto reports a failure in its own log only.
  std::error_code error;
  if (std::filesystem::file_size(path, error) == 0 || error) {
    throw_file_error(ErrorKind::kData, path, {.what = "the trace cannot be written"});
  }
  log_info("profile of steps " + std::to_string(first) + " to " + std::to_string(last_step_) + ": " + path.string());
}

}  // namespace ballast
