// SPDX-License-Identifier: Apache-2.0
// The lines a run prints on stdout, in MaxText's order and formats.
#pragma once

#include <cstdint>
#include <string>

#include "metrics/record.h"
#include "metrics/throughput.h"

namespace ballast {

struct Config;

/// Which optional parts a line has.
struct ConsoleOptions {
  bool has_experts = false;     ///< num_experts > 1: moe_lb_loss
  bool has_mtp = false;         ///< mtp_num_layers > 0: main_model_loss, mtp_loss
  bool has_indexer = false;     ///< use_indexer: indexer_loss
  int64_t rampup_end_step = 0;  ///< earlier steps carry the ramp-up prefix and no rates
};

ConsoleOptions console_options(const Config& config);

/// number parameters: 1.234 billion
std::string parameter_line(int64_t num_parameters);

/// Three lines: Per train step, total TFLOPs, the split into weights and attention in percent.
std::string flops_lines(const FlopCount& flops);

/// To see full metrics 'tensorboard --logdir=DIR'
std::string tensorboard_line(const std::string& tensorboard_dir);

/// completed step: 12, seconds: 1.234, TFLOP/s/device: 12.345, Tokens/s/device: 678.901, total_weights: 8192,
/// loss: 3.210, lm_loss: 3.200, perplexity: 24.533, then dpo_loss, reward_accuracy, moe_lb_loss, main_model_loss,
/// mtp_loss, indexer_loss where they apply. Rates are left out where the record has none.
/// @param record  a record of train_record()
/// @source AI-Hypercomputer/maxtext src/maxtext/common/metric_logger.py
std::string train_line(const Record& record, const ConsoleOptions& options);

/// Starting eval after train step 12
std::string eval_start_line(int64_t train_step);

/// Completed eval step: 3, seconds: 0.123, running loss=..., running perplexity=..., running total_weights=...
/// @param running  what EvalTotals::record() gives so far
std::string eval_step_line(int64_t eval_step, double seconds, const Record& running, const ConsoleOptions& options);

/// Completed eval after train step 12, loss=..., perplexity=..., total_weights=..., avg_z_loss=..., then the parts
/// that apply.
std::string eval_summary_line(const Record& record, const ConsoleOptions& options);

}  // namespace ballast
