// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_saver.h"

#include <chrono>
#include <cstdio>
#include <utility>

#include "checkpoint/checkpoint_folder.h"
#include "errors/errors.h"
#include "errors/log.h"

namespace ballast {

CheckpointSaver::CheckpointSaver(std::filesystem::path root, std::optional<int64_t> most_to_keep)
    : root_(std::move(root)), most_to_keep_(most_to_keep) {}

CheckpointSaver::~CheckpointSaver() {
  try {
    finish();
  } catch (const std::exception& error) {
    log_error(error.what());
  }
}

void CheckpointSaver::start(CheckpointContent content) {
  if (const auto line = finish()) log_info(*line);
  writer_ = std::make_unique<CheckpointWriter>(root_ / std::to_string(content.step), std::move(content));
  is_busy_ = true;
  thread_ = std::thread(&CheckpointSaver::run, this);
}

void CheckpointSaver::run() {
  const auto start = std::chrono::steady_clock::now();
  try {
    writer_->write();
    if (most_to_keep_) prune_checkpoints(root_, *most_to_keep_);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    char text[64];
    std::snprintf(text, sizeof(text), " saved, %.1f MB in %.1f s", static_cast<double>(writer_->num_bytes()) / 1e6,
                  seconds.count());
    report_ = "checkpoint: " + writer_->target().string() + text;
  } catch (...) {
    error_ = std::current_exception();
  }
  is_busy_ = false;
  is_busy_.notify_all();
}

void CheckpointSaver::detach() {
  if (is_busy_) writer_->detach();
}

void CheckpointSaver::wait() {
  is_busy_.wait(true);
}

std::optional<std::string> CheckpointSaver::poll() {
  if (is_busy_) return std::nullopt;
  return finish();
}

std::optional<std::string> CheckpointSaver::finish() {
  if (!thread_.joinable()) return std::nullopt;
  thread_.join();
  writer_.reset();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return std::exchange(report_, {});
}

}  // namespace ballast
