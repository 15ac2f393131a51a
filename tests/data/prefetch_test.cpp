// SPDX-License-Identifier: Apache-2.0
#include "data/prefetch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "data/pipeline_fakes.h"
#include "errors/errors.h"
#include "files/temp_folder.h"

namespace ballast {
namespace {

/// Batches whose only token counts up; fails at `fails_at`.
class CountingSource : public BatchSource {
 public:
  explicit CountingSource(int32_t end, int32_t fails_at = -1) : end_(end), fails_at_(fails_at) {}
  std::optional<HostBatch> next() override {
    if (place_ == fails_at_) throw DataError({"data: counting", "broken", "", "", ""});
    if (place_ == end_) return std::nullopt;
    HostBatch batch;
    batch.resize(1, 1);
    batch.inputs[0] = place_++;
    return batch;
  }
  void reset() override { place_ = 0; }
  nlohmann::json state() const override { return place_; }
  void load_state(const nlohmann::json& state) override { place_ = state; }

 private:
  int32_t end_;
  int32_t fails_at_;
  int32_t place_ = 0;
};

std::unique_ptr<PrefetchSource> prefetch(int32_t end, int64_t queue, int32_t fails_at = -1) {
  return std::make_unique<PrefetchSource>(std::make_unique<CountingSource>(end, fails_at), queue);
}

TEST(PrefetchSource, KeepsOrderAndEnd) {
  const auto source = prefetch(5, 2);
  for (int32_t i = 0; i < 5; ++i) EXPECT_EQ(source->next()->inputs[0], i);
  EXPECT_EQ(source->next(), std::nullopt);
  EXPECT_EQ(source->next(), std::nullopt);
}

TEST(PrefetchSource, ResumesAfterTheLastDeliveredBatchWhateverWasReadAhead) {
  for (const int64_t queue : {1, 3, 100}) {
    expect_exact_resume([&] { return prefetch(3 * PrefetchSource::kSnapshotPeriod + 5, queue); });
  }
}

TEST(PrefetchSource, GivesTheErrorAfterTheBatchesBeforeIt) {
  const auto source = prefetch(9, 4, 3);
  for (int32_t i = 0; i < 3; ++i) EXPECT_EQ(source->next()->inputs[0], i);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(error_line<DataError>([&] { source->next(); }), "data: counting: broken");
  }
}

/// Four tokens in ten milliseconds at best.
class SlowSource : public CountingSource {
 public:
  using CountingSource::CountingSource;
  std::optional<HostBatch> next() override {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::optional<HostBatch> batch = CountingSource::next();
    if (batch) batch->resize(2, 2);
    return batch;
  }
};

TEST(PrefetchSource, MeasuresHowFastItsSourceIsWithoutTheWaitForRoom) {
  PrefetchSource source(std::make_unique<SlowSource>(100), 1);
  EXPECT_EQ(source.tokens_per_second(), std::nullopt);
  source.next();
  std::this_thread::sleep_for(std::chrono::seconds(1));  // the queue is full for most of it
  source.next();
  EXPECT_LE(*source.tokens_per_second(), 400);
  EXPECT_GT(*source.tokens_per_second(), 16);  // four batches at most are made by now, the second left out of the time
}

TEST(PrefetchSource, EndsWhileTheQueueIsFull) {
  for (int i = 0; i < 20; ++i) {
    const auto source = prefetch(1000, 2);
    source->next();  // then the destructor meets a waiting or a working thread
  }
}

}  // namespace
}  // namespace ballast
