// SPDX-License-Identifier: Apache-2.0
// A thread that makes batches while the step runs.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <thread>

#include "data/batch.h"

namespace ballast {

/// Reads ahead up to `queue_batches` batches. An error of the source comes out of next() after the batches that were
/// made before it, and again at each further next().
///
/// A state is a snapshot of the source plus the number of batches delivered since; the snapshot is renewed every
/// kSnapshotPeriod batches, because the open rows of a packer are too much to write out at every batch. load_state()
/// makes the counted batches again and throws them away.
class PrefetchSource : public BatchSource {
 public:
  static constexpr int64_t kSnapshotPeriod = 16;

  PrefetchSource(std::unique_ptr<BatchSource> source, int64_t queue_batches);
  ~PrefetchSource() override;

  std::optional<HostBatch> next() override;
  void reset() override;
  nlohmann::json state() const override;
  void load_state(const nlohmann::json& state) override;
  /// Over all batches made so far, the time spent waiting for room in the queue left out.
  std::optional<double> tokens_per_second() const override;

 private:
  /// Position of the source after some batch.
  struct Mark {
    std::shared_ptr<const nlohmann::json> snapshot;
    int64_t batches_since = 0;
  };
  struct Item {
    std::optional<HostBatch> batch;  // nothing: the end
    std::exception_ptr error;
    Mark mark;
  };

  void start();
  void stop();
  void run(Mark mark);
  Mark mark_here() const;

  std::unique_ptr<BatchSource> source_;  // the thread's while it runs
  int64_t queue_batches_;
  Mark delivered_;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  bool is_stopping_ = false;
  int64_t tokens_made_ = 0;
  double making_seconds_ = 0;
};

}  // namespace ballast
