// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <algorithm>
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

WriterOptions resumed_writer_options(const Config& config, int64_t first_step) {
  WriterOptions options = writer_options(config);
  if (first_step > 0) options.resume_from_step = first_step;
  return options;
}

}  // namespace

Trainer::Trainer(const Config& config)
    : config_(config),
      world_(single_rank_world()),
      decoder_(make_decoder(config, world_, resolve_device(config))),
      train_source_(make_train_source(config, {world_->data_rank(), world_->data_size()})),
      eval_source_(make_eval_source(config, {world_->data_rank(), world_->data_size()})),
      step_(*decoder_, world_, step_options(config)),
      checkpoints_(config, {*decoder_, step_, *train_source_}),
      first_step_(checkpoints_.start()),
      writer_(resumed_writer_options(config, first_step_)),
      console_(console_options(config)),
      progress_(config.steps),
      profiler_(profile_windows(config, first_step_),
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
  if (const auto line = peak_line(config_, /*device_name=*/{})) log_info(*line);
  if (config_.enable_tensorboard) print(tensorboard_line(config_.tensorboard_dir));
  write_setup_texts(writer_, config_, parameters);
}

void Trainer::log_after_progress(const std::optional<std::string>& line) {
  if (!line) return;
  progress_.before_line();
  log_info(*line);
}

int Trainer::run() {
  const int64_t last_step = train();
  const int signal = signal_.received();
  if (signal != 0 || config_.save_checkpoint_on_completion) {
    if (last_step >= first_step_) checkpoints_.save(last_step, writer_);
  }
  log_after_progress(checkpoints_.finish());
  progress_.before_line();
  writer_.close();
  if (signal == 0) return 0;
  log_info("stopped by signal " + std::to_string(signal) + " after step " + std::to_string(last_step) +
           (checkpoints_.is_on() ? "; the same command goes on from there" : ""));
  return 128 + signal;
}

int64_t Trainer::train() {
  if (makes_up_evaluation()) return first_step_ - 1;
  for (int64_t step = first_step_; step < config_.steps; ++step) {
    if (signal_.received() != 0) return step - 1;
    profiler_.before_step(step);
    if (!train_one(step)) {
      log_after_progress("data: the training data ended after " + std::to_string(step) + " of " +
                         std::to_string(config_.steps) + " steps");
      return step - 1;
    }
    profiler_.after_step(step);
    checkpoints_.after_step(step, writer_);
    log_after_progress(checkpoints_.poll());
    if (signal_.received() == 0 && evaluates_after(step) && evaluate_after(step)) return step;
  }
  return config_.steps - 1;
}

bool Trainer::makes_up_evaluation() {
  const int64_t step = first_step_ - 1;
  if (step < 0 || !evaluates_after(step)) return false;
  const auto lines = record_lines_from(run_folder(config_) / "metrics.jsonl", step);
  const bool is_on_record =
      std::any_of(lines.begin(), lines.end(), [](const auto& line) { return line.kind == "eval"; });
  return !is_on_record && evaluate_after(step);
}

bool Trainer::train_one(int64_t step) {
  const Clock::time_point start = Clock::now();
  const std::optional<HostBatch> batch = train_source_->next();
  if (!batch) return false;
  const Clock::time_point data_end = Clock::now();
  StepNumbers numbers = step_.accumulate(*batch, step);
  std::string bad_parameter;
  if (step_.accepts(numbers)) {
    checkpoints_.before_update();
    step_.update(numbers);
  } else {
    bad_parameter = step_.first_bad_parameter();
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
  writer_.write_expert_load(step, step_.expert_loads());
  check_finite(numbers, bad_parameter);
  log_after_progress(data_need_.line(train_source_->tokens_per_second()));
  progress_.update(step + 1, numbers.step_seconds,
                   tokens * static_cast<double>(world_->data_size()) / numbers.step_seconds);
  return true;
}

void Trainer::check_finite(const StepNumbers& numbers, const std::string& bad_parameter) {
  std::string first;
  for (const auto& [name, value] : {std::pair{"loss", numbers.loss}, {"raw_grad_norm", *numbers.raw_grad_norm}}) {
    if (std::isfinite(value)) continue;
    const Fault fault = {.where = "train.step " + std::to_string(numbers.step),
                         .what = std::string(name) + " is not finite; the weights were not updated",
                         .got = (std::isnan(value) ? "NaN" : "Inf") +
                                (bad_parameter.empty() ? std::string() : ", first in " + bad_parameter),
                         .need = {},
                         .attempt = "a lower learning_rate, more warmup, or the batch of this step (ballast inspect)"};
    if (std::isnan(value) ? config_.abort_on_nan_loss : config_.abort_on_inf_loss) throw AbortedError(fault);
    if (first.empty()) first = to_line(fault);
  }
  if (first.empty()) return;
  progress_.before_line();
  log_info(first);
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
