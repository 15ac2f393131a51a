// SPDX-License-Identifier: Apache-2.0
#include "data/prefetch.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "errors/errors.h"

namespace ballast {

using nlohmann::json;

PrefetchSource::PrefetchSource(std::unique_ptr<BatchSource> source, int64_t queue_batches)
    : source_(std::move(source)), queue_batches_(queue_batches), delivered_(mark_here()) {
  BALLAST_CHECK(queue_batches_ > 0, "the queue holds a batch");
}

PrefetchSource::~PrefetchSource() {
  stop();
}

PrefetchSource::Mark PrefetchSource::mark_here() const {
  return {std::make_shared<const json>(source_->state()), 0};
}

void PrefetchSource::start() {
  is_stopping_ = false;
  thread_ = std::thread(&PrefetchSource::run, this, delivered_);
}

void PrefetchSource::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  queue_.clear();
}

void PrefetchSource::run(Mark mark) {
  for (bool is_last = false; !is_last;) {
    Item item;
    const auto start = std::chrono::steady_clock::now();
    try {
      item.batch = source_->next();
      if (item.batch && ++mark.batches_since == kSnapshotPeriod) mark = mark_here();
      is_last = !item.batch;
    } catch (...) {
      item.error = std::current_exception();
      is_last = true;
    }
    item.mark = mark;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::unique_lock<std::mutex> lock(mutex_);
    if (item.batch) tokens_made_ += item.batch->rows * item.batch->length;
    making_seconds_ += seconds.count();
    changed_.wait(lock, [&] { return is_stopping_ || static_cast<int64_t>(queue_.size()) < queue_batches_; });
    if (is_stopping_) return;
    queue_.push_back(std::move(item));
    changed_.notify_all();
  }
}

std::optional<HostBatch> PrefetchSource::next() {
  if (!thread_.joinable()) start();
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return !queue_.empty(); });
  Item& front = queue_.front();
  if (front.error) std::rethrow_exception(front.error);  // stays in the queue, as the end does
  if (!front.batch) return std::nullopt;
  std::optional<HostBatch> batch = std::move(front.batch);
  delivered_ = std::move(front.mark);
  queue_.pop_front();
  changed_.notify_all();
  return batch;
}

std::optional<double> PrefetchSource::tokens_per_second() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (tokens_made_ == 0 || making_seconds_ <= 0) return std::nullopt;
  return static_cast<double>(tokens_made_) / making_seconds_;
}

void PrefetchSource::reset() {
  stop();
  source_->reset();
  delivered_ = mark_here();
}

json PrefetchSource::state() const {
  return {{"source", *delivered_.snapshot}, {"batches_since", delivered_.batches_since}};
}

void PrefetchSource::load_state(const json& state) {
  stop();
  delivered_ = {std::make_shared<const json>(state.at("source")), state.at("batches_since")};
  source_->load_state(*delivered_.snapshot);
  for (int64_t i = 0; i < delivered_.batches_since; ++i) source_->next();
}

}  // namespace ballast
