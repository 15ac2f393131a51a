// SPDX-License-Identifier: Apache-2.0
#include "data/rampup_source.h"

#include <gtest/gtest.h>

#include "data/pipeline_fakes.h"

namespace ballast {
namespace {

/// Batches of `rows` rows of two tokens; row r of batch b holds 2 * (b * rows + r) and the number after it.
class CountedBatches : public BatchSource {
 public:
  CountedBatches(int64_t rows, int64_t batches) : rows_(rows), batches_(batches) {}
  std::optional<HostBatch> next() override {
    if (place_ == batches_) return std::nullopt;
    HostBatch batch;
    batch.resize(rows_, 2);
    for (auto* array : batch.arrays()) {
      for (int64_t i = 0; i < rows_ * 2; ++i)
        (*array)[static_cast<size_t>(i)] = static_cast<int32_t>(place_ * rows_ * 2 + i);
    }
    ++place_;
    return batch;
  }
  void reset() override { place_ = 0; }
  nlohmann::json state() const override { return place_; }
  void load_state(const nlohmann::json& state) override { place_ = state; }

 private:
  int64_t rows_, batches_;
  int64_t place_ = 0;
};

// Two rows for three steps, three rows for two steps, then four.
constexpr BatchRampup kRamp{.start_rows = 2, .increment_rows = 1, .end_rows = 4, .stage_samples = 6};

TEST(RampupSource, CutsTheRowsInTheirOrderThenPassesBatchesOn) {
  RampupSource source(std::make_unique<CountedBatches>(4, 5), kRamp);
  for (const Ids& inputs :
       {Ids{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15, 16, 17}, {18, 19, 20, 21, 22, 23}}) {
    const HostBatch batch = *source.next();
    EXPECT_EQ(batch.rows, static_cast<int64_t>(inputs.size()) / 2);
    EXPECT_EQ(batch.length, 2);
    for (const auto* array : batch.arrays()) EXPECT_EQ(*array, inputs);
  }
  EXPECT_EQ(source.next()->inputs, (Ids{24, 25, 26, 27, 28, 29, 30, 31}));
  EXPECT_EQ(source.next()->rows, 4);
  EXPECT_EQ(source.next(), std::nullopt);
}

TEST(RampupSource, RowsLeftOverAtTheEndOfTheRampAreDropped) {
  // Three steps of three rows use nine of the ten rows of two batches.
  RampupSource source(std::make_unique<CountedBatches>(5, 3),
                      {.start_rows = 3, .increment_rows = 2, .end_rows = 5, .stage_samples = 9});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(source.next()->rows, 3);
  EXPECT_EQ(source.next()->inputs.front(), 2 * 10);
}

TEST(RampupSource, ContinuesExactlyFromEveryState) {
  expect_exact_resume([] { return std::make_unique<RampupSource>(std::make_unique<CountedBatches>(4, 6), kRamp); });
  expect_exact_resume([] { return std::make_unique<RampupSource>(std::make_unique<CountedBatches>(5, 6), kRamp); });
}

TEST(RampupSource, EndsWithItsSource) {
  RampupSource source(std::make_unique<CountedBatches>(3, 1), kRamp);
  EXPECT_EQ(source.next()->rows, 2);
  EXPECT_EQ(source.next(), std::nullopt);
  EXPECT_EQ(source.next(), std::nullopt);
}

}  // namespace
}  // namespace ballast
