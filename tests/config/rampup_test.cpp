// SPDX-License-Identifier: Apache-2.0
#include "config/rampup.h"

#include <gtest/gtest.h>

#include <vector>

#include "config/config.h"
#include "config/resolve.h"
#include "files.h"

namespace ballast {
namespace {

std::vector<std::string> ramp_pairs(const std::vector<std::string>& more) {
  std::vector<std::string> pairs = {"enable_rampup_batch_size=true"};
  pairs.insert(pairs.end(), more.begin(), more.end());
  return pairs;
}

std::vector<int64_t> rows_of_steps(const std::vector<std::string>& pairs, int64_t steps) {
  const BatchRampup rampup = *batch_rampup(config_from_pairs(ramp_pairs(pairs)));
  std::vector<int64_t> rows;
  for (int64_t step = 0; step < steps; ++step) rows.push_back(rampup.rows_at(step));
  return rows;
}

// Three stages of 10 rows: ceil(10 / 2), ceil(10 / 4) and ceil(10 / 6) steps.
TEST(BatchRampup, StagesLastUntilTheirRowsAreUsed) {
  const std::vector<std::string> pairs = {"per_device_batch_size=8", "per_device_batch_size_start=2",
                                          "per_device_batch_size_increment=2", "global_rampup_samples=30"};
  EXPECT_EQ(rows_of_steps(pairs, 12), (std::vector<int64_t>{2, 2, 2, 2, 2, 4, 4, 4, 6, 6, 8, 8}));
  EXPECT_EQ(batch_rampup(config_from_pairs(ramp_pairs(pairs)))->end_step(), 10);
}

// MaxText's defaults: 125 rows a stage, ceil(125 / 4) + ceil(125 / 6) + ceil(125 / 8) + ceil(125 / 10) steps.
TEST(BatchRampup, DefaultsEndAfter82Steps) {
  EXPECT_EQ(batch_rampup(config_from_pairs(ramp_pairs({})))->end_step(), 32 + 21 + 16 + 13);
  EXPECT_EQ(batch_rampup(config_from_pairs({})), std::nullopt);
}

TEST(BatchRampup, CountsTheRowsOfAllMicroBatches) {
  EXPECT_EQ(rows_of_steps({"per_device_batch_size=4", "per_device_batch_size_start=2", "gradient_accumulation_steps=3",
                           "global_rampup_samples=13"},
                          5),
            (std::vector<int64_t>{6, 6, 6, 12, 12}));
}

TEST(BatchRampup, APlanThatDoesNotWorkOutIsRefused) {
  const auto refusal = [](const std::vector<std::string>& more) {
    return config_error([&] { config_from_pairs(ramp_pairs(more)); });
  };
  EXPECT_EQ(refusal({"per_device_batch_size=4"}),
            "config: default per_device_batch_size_start: the batch does not grow; got 4, need less than "
            "per_device_batch_size=4");
  EXPECT_EQ(refusal({"per_device_batch_size=8", "per_device_batch_size_increment=3"}),
            "config: command line per_device_batch_size_increment: its steps do not end at per_device_batch_size; got "
            "3, need a divisor of 4");
  EXPECT_EQ(refusal({"per_device_batch_size=8", "per_device_batch_size_start=4.5"}),
            "config: command line per_device_batch_size_start: a batch grows by whole rows; got 4.5, need a whole "
            "number of rows on 1 device(s)");
  EXPECT_EQ(config_from_pairs({"per_device_batch_size=4"}).per_device_batch_size, 4);
}

}  // namespace
}  // namespace ballast
