// SPDX-License-Identifier: Apache-2.0
#include "metrics/period_files.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "errors/errors.h"
#include "metrics/temporary_folder.h"

namespace ballast {
namespace {

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(PeriodFiles, CutTheRunAtMultiplesOfThePeriod) {
  const TemporaryFolder folder;
  PeriodFiles files(folder / "metrics", "r", 3);
  for (int64_t step = 0; step < 8; ++step) files.write({"train", step, {}});
  files.finish();
  EXPECT_EQ(names_in(folder / "metrics"), (std::vector<std::string>{"metrics_step_000000_to_step_000002.txt",
                                                                    "metrics_step_000003_to_step_000005.txt",
                                                                    "metrics_step_000006_to_step_000007.txt"}));
  EXPECT_EQ(lines_of(folder / "metrics/metrics_step_000006_to_step_000007.txt").size(), 2u);
}

TEST(PeriodFiles, HoldTheEvaluationOfTheirLastStep) {
  const TemporaryFolder folder;
  PeriodFiles files(folder.path(), "r", 2);
  for (int64_t step = 0; step < 3; ++step) {
    files.write({"train", step, {}});
    if (step == 1) files.write({"eval", step, {}});
  }
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"metrics_step_000000_to_step_000001.txt"}));
  EXPECT_EQ(lines_of(folder / "metrics_step_000000_to_step_000001.txt").size(), 3u);
}

TEST(PeriodFiles, NameTheFirstStepOfAResumedRun) {
  const TemporaryFolder folder;
  PeriodFiles files(folder.path(), "r", 100);
  files.write({"train", 50, {}});
  files.write({"train", 51, {}});
  files.finish();
  files.finish();
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"metrics_step_000050_to_step_000051.txt"}));
}

TEST(PeriodFiles, AFolderThatCannotBeMadeIsAnError) {
  PeriodFiles files("/dev/null/metrics", "r", 1);
  files.write({"train", 0, {}});
  EXPECT_THROW(files.finish(), DataError);
}

}  // namespace
}  // namespace ballast
