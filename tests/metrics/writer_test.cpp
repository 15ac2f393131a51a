// SPDX-License-Identifier: Apache-2.0
#include "metrics/writer.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "config/config.h"
#include "config/resolve.h"
#include "errors/errors.h"
#include "metrics/event_file.h"

namespace ballast {
namespace {

Record step_record(int64_t step) {
  return {"train", step, {{"learning/loss", 1.0 / static_cast<double>(step + 1)}}};
}

WriterOptions options_in(const TemporaryFolder& folder) {
  WriterOptions options;
  options.run_name = "r";
  options.run_dir = folder / "r";
  options.tensorboard_run_dir = folder / "r/tensorboard/r";
  return options;
}

std::filesystem::path event_path(const TemporaryFolder& folder) {
  return std::filesystem::directory_iterator(folder / "r/tensorboard/r")->path();
}

TEST(MetricsWriter, GivesEveryRecordToEverySink) {
  const TemporaryFolder folder;
  WriterOptions options = options_in(folder);
  options.metrics_file = folder / "copy.jsonl";
  options.period_dir = folder / "r/metrics";
  {
    MetricsWriter writer(options);
    writer.text("num_model_parameters", "42");
    writer.write(step_record(0));
    writer.write(step_record(1));
  }
  EXPECT_EQ(lines_of(folder / "r/metrics.jsonl").size(), 2u);
  EXPECT_EQ(content_of(folder / "copy.jsonl"), content_of(folder / "r/metrics.jsonl"));
  EXPECT_EQ(content_of(folder / "r/metrics/metrics_step_000000_to_step_000001.txt"),
            content_of(folder / "r/metrics.jsonl"));
  EXPECT_EQ(events_of(event_path(folder)).size(), 5u);  // version, start, text, two records
}

TEST(MetricsWriter, FlushesEveryLogPeriodRecords) {
  const TemporaryFolder folder;
  WriterOptions options = options_in(folder);
  options.log_period = 3;
  MetricsWriter writer(options);
  writer.write(step_record(0));
  writer.write(step_record(1));
  EXPECT_EQ(lines_of(folder / "r/metrics.jsonl").size(), 0u);
  writer.write(step_record(2));
  EXPECT_EQ(lines_of(folder / "r/metrics.jsonl").size(), 3u);
  EXPECT_EQ(events_of(event_path(folder)).size(), 5u);
}

TEST(MetricsWriter, KeepsTheLastRecordOfARunThatEndsByAnException) {
  const TemporaryFolder folder;
  try {
    MetricsWriter writer(options_in(folder));
    writer.write(step_record(0));
    throw std::runtime_error("NaN");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(lines_of(folder / "r/metrics.jsonl").size(), 1u);
  EXPECT_EQ(events_of(event_path(folder)).size(), 3u);
}

TEST(MetricsWriter, ContinuesTheFilesOfAResumedRun) {
  const TemporaryFolder folder;
  WriterOptions options = options_in(folder);
  options.metrics_file = folder / "copy.jsonl";
  {
    MetricsWriter writer(options);
    for (int64_t step = 0; step < 5; ++step) writer.write(step_record(step));
  }
  options.resume_from_step = 3;
  {
    MetricsWriter writer(options);
    writer.write(step_record(3));
  }
  const auto lines = lines_of(folder / "r/metrics.jsonl");
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(nlohmann::json::parse(lines.back()).at("step"), 3);
  EXPECT_EQ(content_of(folder / "copy.jsonl"), content_of(folder / "r/metrics.jsonl"));
}

TEST(MetricsWriter, KeepsAllRecordsWhenAnExistingRunIsEvaluated) {
  const TemporaryFolder folder;
  WriterOptions options = options_in(folder);
  {
    MetricsWriter(options).write(step_record(9));
  }
  options.resume_from_step = kKeepAllSteps;
  options.tensorboard_run_dir = folder / "other";
  {
    MetricsWriter(options).write({"eval", 9, {}});
  }
  EXPECT_EQ(lines_of(folder / "r/metrics.jsonl").size(), 2u);
  const auto events = events_of(std::filesystem::directory_iterator(folder / "other")->path());
  for (const WireMessage& event : events) EXPECT_FALSE(event.has(7)) << "TensorBoard would forget earlier steps";
}

TEST(MetricsWriter, WritesTheOneFileOnceWhenMetricsFileIsIt) {
  const TemporaryFolder folder;
  WriterOptions options = options_in(folder);
  options.metrics_file = folder / "r/../r/metrics.jsonl";
  {
    MetricsWriter(options).write(step_record(0));
  }
  EXPECT_EQ(lines_of(folder / "r/metrics.jsonl").size(), 1u);
}

TEST(MetricsWriter, AFullDiskEndsTheRunWithOneLineThatNamesTheFile) {
  const TemporaryFolder folder;
  WriterOptions options = options_in(folder);
  options.metrics_file = "/dev/full";
  options.log_period = 1;
  testing::internal::CaptureStderr();
  try {
    MetricsWriter writer(options);
    writer.write(step_record(0));
    FAIL() << "a full disk must not pass";
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("/dev/full"), std::string::npos) << error.what();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(MetricsWriter, LogsAFailureThatOnlyTheDestructorMeets) {
  const TemporaryFolder folder;
  WriterOptions options = options_in(folder);
  options.metrics_file = "/dev/full";
  testing::internal::CaptureStderr();
  {
    MetricsWriter(options).write(step_record(0));
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(log.find("error: "), 0u) << log;
  EXPECT_NE(log.find("/dev/full"), std::string::npos) << log;
}

TEST(WriterOptions, FollowTheConfiguration) {
  const Config config = config_from_pairs({"run_name=first", "base_output_directory=/out", "log_period=7",
                                           "metrics_file=/m.jsonl", "dataset_type=synthetic"});
  const WriterOptions options = writer_options(config);
  EXPECT_EQ(options.run_name, "first");
  EXPECT_EQ(options.run_dir, "/out/first");
  EXPECT_EQ(options.metrics_file, "/m.jsonl");
  EXPECT_EQ(options.tensorboard_run_dir.lexically_normal(), "/out/first/tensorboard/first");
  EXPECT_TRUE(options.period_dir.empty());
  EXPECT_EQ(options.log_period, 7);
  EXPECT_FALSE(options.resume_from_step.has_value());
}

TEST(WriterOptions, LeaveTensorBoardOutWhenItIsOff) {
  const Config config = config_from_pairs({"run_name=r", "enable_tensorboard=false", "dataset_type=synthetic"});
  EXPECT_TRUE(writer_options(config).tensorboard_run_dir.empty());
}

TEST(SetupTexts, HoldTheParameterCountAndEveryKey) {
  const TemporaryFolder folder;
  const Config config = config_from_pairs({"run_name=r", "steps=17", "dataset_type=synthetic"});
  {
    MetricsWriter writer(options_in(folder));
    write_setup_texts(writer, config, 1234);
  }
  std::map<std::string, std::string> texts;
  for (const WireMessage& event : events_of(event_path(folder))) {
    if (!event.has(5)) continue;
    const WireMessage value = event.message(5).message(1);
    texts[value.bytes(1)] = value.message(8).bytes(8);
  }
  EXPECT_EQ(texts["num_model_parameters"], "1234");
  EXPECT_EQ(texts["steps"], "17");
  EXPECT_EQ(texts["run_name"], "r");
  EXPECT_TRUE(texts.count("learning_rate"));
}

}  // namespace
}  // namespace ballast
