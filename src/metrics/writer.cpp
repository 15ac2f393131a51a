// SPDX-License-Identifier: Apache-2.0
#include "metrics/writer.h"

#include <utility>

#include "config/config.h"
#include "config/key_table.h"
#include "errors/errors.h"
#include "errors/log.h"

namespace ballast {
namespace {

constexpr std::chrono::seconds kLongestWait{10};

/// The step from which TensorBoard shall forget: everything for a fresh run, nothing when all is kept.
std::optional<int64_t> restart_step(const std::optional<int64_t>& resume_from_step) {
  if (resume_from_step == kKeepAllSteps) return std::nullopt;
  return resume_from_step.value_or(0);
}

}  // namespace

std::filesystem::path run_folder(const Config& config) {
  return std::filesystem::path(config.base_output_directory) / config.run_name;
}

WriterOptions writer_options(const Config& config) {
  WriterOptions options;
  options.run_name = config.run_name;
  options.run_dir = run_folder(config);
  options.metrics_file = config.metrics_file;
  if (config.gcs_metrics) options.period_dir = config.metrics_dir;
  if (config.enable_tensorboard) {
    options.tensorboard_run_dir = std::filesystem::path(config.tensorboard_dir) / config.run_name;
  }
  options.log_period = config.log_period;
  options.expert_load_period = config.expert_load_period;
  return options;
}

MetricsWriter::MetricsWriter(const WriterOptions& options)
    : log_period_(options.log_period), last_flush_(std::chrono::steady_clock::now()) {
  const auto main_file = options.run_dir / "metrics.jsonl";
  json_lines_.push_back(std::make_unique<JsonLines>(main_file, options.run_name, options.resume_from_step));
  if (!options.metrics_file.empty() &&
      std::filesystem::weakly_canonical(options.metrics_file) != std::filesystem::weakly_canonical(main_file)) {
    json_lines_.push_back(
        std::make_unique<JsonLines>(options.metrics_file, options.run_name, options.resume_from_step));
  }
  if (options.resume_from_step != kKeepAllSteps) {  // an evaluation has no loads to add
    expert_load_ = std::make_unique<ExpertLoadFile>(options.run_dir / "expert_load.jsonl", options.expert_load_period,
                                                    options.resume_from_step);
  }
  if (!options.period_dir.empty()) {
    period_files_ = std::make_unique<PeriodFiles>(options.period_dir, options.run_name, log_period_);
    if (options.resume_from_step && *options.resume_from_step != kKeepAllSteps) {
      const int64_t first_step = period_files_->reopen(*options.resume_from_step);
      for (const RecordLine& line : record_lines_from(main_file, first_step)) {
        period_files_->write_line(line.step, line.text);
      }
    }
  }
  if (!options.tensorboard_run_dir.empty()) {
    tensorboard_ =
        std::make_unique<TensorBoardWriter>(options.tensorboard_run_dir, restart_step(options.resume_from_step));
  }
}

MetricsWriter::~MetricsWriter() {
  try {
    close();
  } catch (const Error& error) {
    log_error(error.what());
  }
}

template <class Action>
void MetricsWriter::while_open(const Action& action) {
  if (!is_open_) return;
  try {
    action();
  } catch (const Error&) {
    is_open_ = false;  // one line a failure: the destructor does not try again
    throw;
  }
}

void MetricsWriter::write(const Record& record) {
  while_open([&] {
    for (const auto& file : json_lines_) file->write(record);
    if (period_files_) period_files_->write(record);
    if (tensorboard_) tensorboard_->write(record);
  });
  ++num_unflushed_;
  if (num_unflushed_ >= log_period_ || std::chrono::steady_clock::now() - last_flush_ >= kLongestWait) flush();
}

void MetricsWriter::write_expert_load(int64_t step, std::vector<LayerLoad> loads) {
  while_open([&] {
    if (expert_load_) expert_load_->write(step, std::move(loads));
  });
}

void MetricsWriter::text(const std::string& tag, const std::string& text) {
  while_open([&] {
    if (tensorboard_) tensorboard_->text(tag, text);
  });
}

void MetricsWriter::flush() {
  while_open([&] {
    for (const auto& file : json_lines_) file->flush();
    if (expert_load_) expert_load_->flush();
    if (tensorboard_) tensorboard_->flush();
  });
  num_unflushed_ = 0;
  last_flush_ = std::chrono::steady_clock::now();
}

void MetricsWriter::sync() {
  flush();
  while_open([&] {
    for (const auto& file : json_lines_) file->sync();
    if (expert_load_) expert_load_->sync();
    if (tensorboard_) tensorboard_->sync();
  });
}

void MetricsWriter::close() {
  while_open([&] {
    for (const auto& file : json_lines_) file->close();
    if (expert_load_) expert_load_->close();
    if (period_files_) period_files_->finish();
    if (tensorboard_) tensorboard_->close();
  });
  is_open_ = false;
}

void write_setup_texts(MetricsWriter& writer, const Config& config, int64_t num_parameters) {
  writer.text("num_model_parameters", std::to_string(num_parameters));
  for (const KeyInfo& key : key_table()) {
    const std::string text = to_text(get_value(config, key));
    writer.text(std::string(key.name), key.rule.is_secret && !text.empty() ? "(set)" : text);
  }
  writer.flush();
}

}  // namespace ballast
