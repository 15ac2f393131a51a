// SPDX-License-Identifier: Apache-2.0
// Owner of a run's metric files: JSON lines, expert load, period files, TensorBoard events.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "metrics/expert_load_file.h"
#include "metrics/jsonl.h"
#include "metrics/period_files.h"
#include "metrics/record.h"
#include "metrics/tensorboard.h"

namespace ballast {

struct Config;

/// Value of resume_from_step that keeps every earlier record (evaluation of an existing run).
inline constexpr int64_t kKeepAllSteps = std::numeric_limits<int64_t>::max();

struct WriterOptions {
  std::string run_name;
  std::filesystem::path run_dir;              ///< gets metrics.jsonl and expert_load.jsonl
  std::filesystem::path metrics_file;         ///< a second copy of the JSON lines; empty: none
  std::filesystem::path period_dir;           ///< gcs_metrics: one text file every log_period steps; empty: none
  std::filesystem::path tensorboard_run_dir;  ///< gets the event file; empty: none
  int64_t log_period = 100;                   ///< flush after this many records
  int64_t expert_load_period = 100;           ///< steps between records of the expert load
  /// Absent: a fresh run, files are truncated. Else earlier records with step >= this are dropped.
  std::optional<int64_t> resume_from_step;
};

/// <base_output_directory>/<run_name>, where all of a run lies.
std::filesystem::path run_folder(const Config& config);

/// Paths and periods of a configuration; resume_from_step stays absent.
WriterOptions writer_options(const Config& config);

/// Writes each record to every sink of a run. Used by rank 0 only, from one thread.
///
/// Files are flushed every log_period records, when ten seconds have passed since the last flush, on close() and on
/// destruction, so that a run that ends by an exception keeps its last record. A file that cannot be written (full
/// disk) raises DataError naming it from the call that meets it; only the destructor logs it instead.
class MetricsWriter {
 public:
  /// Creates missing folders.
  explicit MetricsWriter(const WriterOptions& options);
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;

  void write(const Record& record);
  /// Into expert_load.jsonl, where the step is due; see ExpertLoadFile. No tags: those are in the step's record.
  void write_expert_load(int64_t step, std::vector<LayerLoad> loads);
  /// A text summary for TensorBoard; no other sink has it.
  void text(const std::string& tag, const std::string& text);
  void flush();
  /// Flushes and waits until the disk has it: what a checkpoint relies on.
  void sync();
  /// Writes what is pending and closes all files. After close(), and after a failure, further calls do nothing.
  void close();

 private:
  template <class Action>
  void while_open(const Action& action);

  int64_t log_period_;
  int64_t num_unflushed_ = 0;
  std::chrono::steady_clock::time_point last_flush_;
  std::vector<std::unique_ptr<JsonLines>> json_lines_;
  std::unique_ptr<ExpertLoadFile> expert_load_;
  std::unique_ptr<PeriodFiles> period_files_;
  std::unique_ptr<TensorBoardWriter> tensorboard_;
  bool is_open_ = true;
};

/// `num_model_parameters` and every key of `config` as text summaries; secrets are masked.
void write_setup_texts(MetricsWriter& writer, const Config& config, int64_t num_parameters);

}  // namespace ballast
