// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "config/config.h"
#include "data/loader.h"
#include "errors/errors.h"
#include "errors/log.h"
#include "metrics/throughput.h"

namespace ballast {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Trainer::Trainer(const Config& config)
    : config_(config),
      world_(single_rank_world()),
      decoder_(make_decoder(config, world_, resolve_device(config))),
      train_source_(make_train_source(config, {world_->data_rank(), world_->data_size()})),
      eval_source_(make_eval_source(config, {world_->data_rank(), world_->data_size()})),
      step_(*decoder_, world_, step_options(config)),
      writer_(writer_options(config)),
      console_(console_options(config)),
      progress_(config.steps),
      profiler_(profile_windows(config),
                std::filesystem::path(config.tensorboard_dir) / config.run_name / "plugins" / "profile") {
  report_start();
}

void Trainer::print(const std::string& line) {
  progress_.before_line();
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void Trainer::report_start() {
  if (config_.log_config) {
    for (const std::string& line : changed_values(config_)) log_info("config: " + line);
  }
  const int64_t parameters = count_parameters(decoder_->spec());
  const FlopCount flops = training_flops(flop_shape(config_, decoder_->spec()));
  tflops_per_step_ = flops.total;
  print(parameter_line(parameters));
  print(flops_lines(flops));
  if (config_.enable_tensorboard) print(tensorboard_line(config_.tensorboard_dir));
  write_setup_texts(writer_, config_, parameters);
}

int Trainer::run() {
  for (int64_t step = 0; step < config_.steps; ++step) {
    profiler_.before_step(step);
    if (!train_one(step)) {
      log_info("data: the training data ended after " + std::to_string(step) + " of " + std::to_string(config_.steps) +
               " steps");
      break;
    }
    profiler_.after_step(step);
    if (signal_.received() == 0 && evaluates_after(step) && evaluate_after(step)) break;
    if (signal_.received() != 0) {
      progress_.before_line();
      log_info("stopped by signal " + std::to_string(signal_.received()) + " after step " + std::to_string(step));
      writer_.close();
      return 128 + signal_.received();
    }
  }
  progress_.before_line();
  writer_.close();
  return 0;
}

bool Trainer::train_one(int64_t step) {
  const Clock::time_point start = Clock::now();
  const std::optional<HostBatch> batch = train_source_->next();
  if (!batch) return false;
  const Clock::time_point data_end = Clock::now();
  StepNumbers numbers = step_.accumulate(*batch, step);
  if (step_.accepts(numbers)) {
    step_.update(numbers);
  } else {
    step_.skip(numbers);
  }
  numbers.step_seconds = seconds_since(start);
  data_need_.add_step(batch->rows * batch->length, seconds_since(data_end));
  double tokens = tokens_per_device(config_);
  if (step < console_.rampup_end_step) {
    tokens = static_cast<double>(batch->rows * batch->length);
  } else {
    numbers.tflops = tflops_per_step_;
    numbers.tokens = tokens;
  }
  numbers.peak_tflops = peak_tflops(config_, /*device_name=*/{});
  const Record record = train_record(numbers);
  print(train_line(record, console_));
  writer_.write(record);
  check_finite(numbers);
  if (const auto line = data_need_.line(train_source_->tokens_per_second())) {
    progress_.before_line();
    log_info(*line);
  }
  progress_.update(step + 1, numbers.step_seconds,
                   tokens * static_cast<double>(world_->data_size()) / numbers.step_seconds);
  return true;
}

void Trainer::check_finite(const StepNumbers& numbers) const {
  for (const auto& [name, value] : {std::pair{"loss", numbers.loss}, {"raw_grad_norm", *numbers.raw_grad_norm}}) {
    if ((std::isnan(value) && config_.abort_on_nan_loss) || (std::isinf(value) && config_.abort_on_inf_loss)) {
      throw AbortedError(
          {.where = "train.step " + std::to_string(numbers.step),
           .what = std::string(name) + " is not finite; the weights were not updated",
           .got = std::isnan(value) ? "NaN" : "Inf",
           .need = {},
           .attempt = "a lower learning_rate, more warmup, or the batch of this step (ballast inspect)"});
    }
  }
}

bool Trainer::evaluates_after(int64_t step) const {
  if (config_.eval_interval <= 0 || eval_source_ == nullptr || step < config_.eval_start_step) return false;
  return (step - config_.eval_start_step) % config_.eval_interval == 0;
}

bool Trainer::evaluate_after(int64_t step) {
  print(eval_start_line(step));
  const auto observer = [&](int64_t batch, double seconds, const EvalTotals& totals) {
    print(eval_step_line(batch, seconds, totals.record(step), console_));
    return signal_.received() == 0;
  };
  const EvalTotals totals = evaluate(*decoder_, *eval_source_, *world_, eval_options(config_), observer);
  if (signal_.received() != 0) return false;  // a cut evaluation is no result
  totals.check_not_empty(eval_split_name(config_));
  const Record record = totals.record(step);
  print(eval_summary_line(record, console_));
  writer_.write(record);
  if (config_.target_eval_loss <= 0 || totals.avg_loss() > config_.target_eval_loss) return false;
  progress_.before_line();
  log_info("target_eval_loss reached after step " + std::to_string(step));
  return true;
}

}  // namespace ballast
