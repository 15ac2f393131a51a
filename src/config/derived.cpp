// SPDX-License-Identifier: Apache-2.0
#include "config/derived.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <ctime>
#include <filesystem>

#include "config/checks.h"
#include "config/rampup.h"
#include "errors/errors.h"
#include "errors/log.h"

namespace ballast {
namespace {

template <class Type>
void put(Config& config, const std::string& key, Type& field, Type value) {
  field = std::move(value);
  config.set_origin(key, "derived");
}

[[noreturn]] void refuse(const Config& config, const std::string& key, const std::string& what, const std::string& need,
                         const std::string& got = "") {
  Fault fault;
  fault.where = place_of(config.origin(key), key);
  fault.what = what;
  fault.got = got;
  fault.need = need;
  throw ConfigError(fault);
}

// Sizes stay below 10^9 * 2^21: the bounds of keys.def and of a 64-bit scale.
void derive_sizes(Config& config) {
  const int log_scale = std::countr_zero(static_cast<uint64_t>(config.global_parameter_scale));
  const int layers = log_scale / 3;
  const int heads = layers + (log_scale % 3 > 0 ? 1 : 0);
  const int width = layers + (log_scale % 3 > 1 ? 1 : 0);
  const int64_t expert_dim = config.base_moe_mlp_dim > 0 ? config.base_moe_mlp_dim : config.base_mlp_dim;
  put(config, "emb_dim", config.emb_dim, config.base_emb_dim << width);
  put(config, "mlp_dim", config.mlp_dim, config.base_mlp_dim << heads);
  put(config, "moe_mlp_dim", config.moe_mlp_dim, expert_dim << heads);
  put(config, "num_query_heads", config.num_query_heads, config.base_num_query_heads << heads);
  put(config, "num_kv_heads", config.num_kv_heads, config.base_num_kv_heads << heads);
  put(config, "num_decoder_layers", config.num_decoder_layers, config.base_num_decoder_layers << layers);
}

// Rows of one micro-batch over all devices.
int64_t micro_batch_rows(const Config& config, const std::string& key, double rows_per_device, int64_t num_devices) {
  const double rows = static_cast<double>(num_devices) * rows_per_device;
  if (rows < 1) {
    refuse(config, key, "a micro-batch has no row on " + std::to_string(num_devices) + " device(s)",
           "devices times it at least 1");
  }
  if (rows != std::floor(rows)) {
    log_warning(place_of(config.origin(key), key) + ": " + std::to_string(num_devices) + " device(s) times it is no " +
                "whole number of rows; rounded down");
  }
  return static_cast<int64_t>(rows);
}

void derive_batch_sizes(Config& config, int64_t num_devices) {
  if (config.eval_per_device_batch_size == 0) {
    put(config, "eval_per_device_batch_size", config.eval_per_device_batch_size, config.per_device_batch_size);
  }
  const int64_t train_rows =
      micro_batch_rows(config, "per_device_batch_size", config.per_device_batch_size, num_devices);
  const int64_t eval_rows =
      micro_batch_rows(config, "eval_per_device_batch_size", config.eval_per_device_batch_size, num_devices);
  const int64_t steps = config.gradient_accumulation_steps;
  const double expansion = config.expansion_factor_real_data > 0 ? config.expansion_factor_real_data : 1;
  const auto rows_to_load = [&](double rows_per_device) {
    return static_cast<int64_t>(static_cast<double>(num_devices) * std::max(rows_per_device, 1.0) * expansion);
  };
  const int64_t loaded_rows = rows_to_load(config.per_device_batch_size);
  const int64_t loaded_eval_rows = rows_to_load(config.eval_per_device_batch_size);
  put(config, "num_target_devices", config.num_target_devices, num_devices);
  put(config, "micro_batch_size_to_train_on", config.micro_batch_size_to_train_on, train_rows);
  put(config, "global_batch_size_to_train_on", config.global_batch_size_to_train_on, train_rows * steps);
  put(config, "global_batch_size_to_load", config.global_batch_size_to_load, loaded_rows * steps);
  put(config, "micro_batch_size_to_eval_on", config.micro_batch_size_to_eval_on, eval_rows);
  put(config, "global_batch_size_to_eval_on", config.global_batch_size_to_eval_on, eval_rows);
  put(config, "global_batch_size_to_load_eval", config.global_batch_size_to_load_eval, loaded_eval_rows);
}

void check_balance_groups_fit(const Config& config) {
  const int64_t group = config.moe_lb_group_instances, rows = config.micro_batch_size_to_train_on;
  if (group == 0 || rows % group == 0) return;
  refuse(config, "moe_lb_group_instances",
         "a micro-batch of " + std::to_string(rows) + " rows is no whole number of groups", "a divisor of the rows",
         std::to_string(group));
}

void derive_steps(Config& config) {
  if (config.steps == -1 && config.learning_rate_schedule_steps == -1) {
    refuse(config, "steps", "steps and learning_rate_schedule_steps both ask for the other one",
           "a number in one of them");
  }
  if (config.steps == -1) put(config, "steps", config.steps, config.learning_rate_schedule_steps);
  if (config.learning_rate_schedule_steps == -1) {
    put(config, "learning_rate_schedule_steps", config.learning_rate_schedule_steps, config.steps);
  }
}

std::string model_label(const Config& config) {
  if (config.hf_model_path.empty()) return config.model_name;
  const std::filesystem::path folder = std::filesystem::path(config.hf_model_path + "/").lexically_normal();
  const std::string name = folder.parent_path().filename().string();
  return name.empty() || name.front() == '.' ? "hf" : name;
}

void derive_folders(Config& config, const std::map<std::string, std::string>& environment, bool needs_data) {
  if (config.run_name.empty()) {
    const auto job = environment.find("JOBSET_NAME");
    char time_text[32];
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local);
    std::strftime(time_text, sizeof time_text, "%Y-%m-%d-%H-%M", &local);
    const bool has_job = job != environment.end() && !job->second.empty();
    put(config, "run_name", config.run_name, has_job ? job->second : model_label(config) + "_" + time_text);
  }
  if (config.base_output_directory.empty()) {
    const std::filesystem::path folder = std::filesystem::current_path() / "ballast_output";
    put(config, "base_output_directory", config.base_output_directory, folder.string());
    if (needs_data) log_warning("config: base_output_directory is not set; writing to " + folder.string());
  }
  const std::filesystem::path run = std::filesystem::path(config.base_output_directory) / config.run_name;
  put(config, "checkpoint_dir", config.checkpoint_dir, (run / "checkpoints" / "").string());
  put(config, "metrics_dir", config.metrics_dir, (run / "metrics" / "").string());
  put(config, "tensorboard_dir", config.tensorboard_dir, (run / "tensorboard" / "").string());
}

void derive_tokenizer(Config& config) {
  if (config.tokenizer_path.empty() && !config.hf_model_path.empty()) {
    put(config, "tokenizer_path", config.tokenizer_path, config.hf_model_path);
  }
}

}  // namespace

void derive_values(Config& config, int64_t num_devices, const std::map<std::string, std::string>& environment,
                   bool needs_data) {
  // MaxText's default of a machine without its accelerator.
  if (config.hardware == "tpu") put(config, "hardware", config.hardware, std::string("auto"));
  derive_sizes(config);
  derive_batch_sizes(config, num_devices);
  check_balance_groups_fit(config);
  batch_rampup(config);  // its checks
  derive_steps(config);
  derive_tokenizer(config);
  derive_folders(config, environment, needs_data);
}

}  // namespace ballast
