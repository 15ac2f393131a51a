// SPDX-License-Identifier: Apache-2.0
#include "train/run_checkpoints.h"

#include <utility>

#include "config/config.h"
#include "errors/errors.h"
#include "errors/log.h"
#include "train/setup.h"

namespace ballast {

RunCheckpoints::RunCheckpoints(const Config& config, const RunParts& parts) : config_(config), parts_(parts) {
  if (!config.enable_checkpointing) return;
  const std::filesystem::path root = checkpoints_root(config);
  lock_ = std::make_unique<FolderLock>(root);
  remove_unfinished(root);
  saver_ = std::make_unique<CheckpointSaver>(root, config.max_num_checkpoints_to_keep);
}

int64_t RunCheckpoints::first_step_after(int64_t step, const std::string& source) const {
  if (step + 1 < config_.steps) return step + 1;
  throw ConfigError({"config: " + config_.origin("steps") + " steps", source + " has finished them all",
                     std::to_string(config_.steps), "more than " + std::to_string(step + 1) + " to go on",
                     "a larger steps, or another run_name for a new run"});
}

int64_t RunCheckpoints::start() {
  if (saver_) {
    const std::filesystem::path root = checkpoints_root(config_);
    const auto use = [&](const CheckpointReader& reader) { restore_run(reader, parts_, config_); };
    if (const std::optional<int64_t> step = use_newest_checkpoint(root, use)) {
      saved_step_ = *step;
      const std::string name = (root / std::to_string(*step)).string();
      for (const auto& [key, path] : {std::pair{"load_parameters_path", config_.load_parameters_path},
                                      {"load_full_state_path", config_.load_full_state_path}}) {
        if (!path.empty()) log_info(std::string(key) + ": not used, the run goes on from its own checkpoint");
      }
      const int64_t first_step = first_step_after(*step, "checkpoint " + name);
      log_info("checkpoint: " + name + ": goes on with step " + std::to_string(first_step));
      return first_step;
    }
  }
  if (!config_.load_full_state_path.empty()) {
    const CheckpointReader reader(config_.load_full_state_path);
    restore_run(reader, parts_, config_);
    log_info("checkpoint: " + config_.load_full_state_path + ": full state of step " +
             std::to_string(reader.manifest().step));
    return first_step_after(reader.manifest().step, "checkpoint " + config_.load_full_state_path);
  }
  set_first_weights(parts_.decoder, config_);
  return 0;
}

void RunCheckpoints::before_update() {
  if (saver_) saver_->detach();
}

bool RunCheckpoints::is_due(int64_t step) const {
  if (config_.enable_continuous_checkpointing) return !saver_->is_busy();
  return step % config_.checkpoint_period == 0 && (step > 0 || config_.save_checkpoint_on_start);
}

void RunCheckpoints::after_step(int64_t step, MetricsWriter& metrics) {
  if (saver_ && is_due(step)) save(step, metrics);
}

void RunCheckpoints::save(int64_t step, MetricsWriter& metrics) {
  if (!saver_ || step == saved_step_) return;
  metrics.sync();
  saver_->start(checkpoint_of(parts_, config_, step));
  saved_step_ = step;
  if (!config_.async_checkpointing) saver_->wait();
}

std::optional<std::string> RunCheckpoints::poll() {
  return saver_ ? saver_->poll() : std::nullopt;
}

std::optional<std::string> RunCheckpoints::finish() {
  return saver_ ? saver_->finish() : std::nullopt;
}

}  // namespace ballast
