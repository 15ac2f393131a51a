// SPDX-License-Identifier: Apache-2.0
#include "metrics/expert_load_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "errors/errors.h"
#include "metrics/temporary_folder.h"
#include "metrics/writer.h"

namespace ballast {
namespace {

std::vector<LayerLoad> loads_at(int64_t step) {
  return {{0, true, {step, 0}, {}}, {1, false, {1, step}, {0.001, -0.001}}};
}

/// The steps of the file, each with both layers.
std::vector<int64_t> load_steps(const std::filesystem::path& path) {
  std::vector<int64_t> steps;
  const std::vector<std::string> lines = lines_of(path);
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto record = nlohmann::json::parse(lines[i]);
    EXPECT_EQ(record.at("layer"), i % 2) << lines[i];
    if (i % 2 == 0) steps.push_back(record.at("step"));
  }
  EXPECT_EQ(lines.size() % 2, 0U);
  return steps;
}

void write_steps(ExpertLoadFile& file, int64_t begin, int64_t end) {
  for (int64_t step = begin; step < end; ++step) file.write(step, loads_at(step));
}

std::string file_of_steps(const std::filesystem::path& path, int64_t num_steps, int64_t period) {
  ExpertLoadFile file(path, period, std::nullopt);
  write_steps(file, 0, num_steps);
  file.close();
  return content_of(path);
}

TEST(ExpertLoadFile, ALineHoldsTheFieldsInTheirOrder) {
  EXPECT_EQ(load_line(12, {3, false, {5, 0, 7}, {0.1, -0.25, 0}}),
            R"({"step":12,"layer":3,"routing":"top_k","counts":[5,0,7],"bias":[0.1,-0.25,0]})");
  EXPECT_EQ(load_line(0, {0, true, {12288}, {}}), R"({"step":0,"layer":0,"routing":"hash","counts":[12288]})");
}

TEST(ExpertLoadFile, ABiasHasTheDigitsThatGiveItBack) {
  const double narrow = 0.003F, wide = 0.1 + 0.2;
  const auto record = nlohmann::json::parse(load_line(0, {0, false, {1, 1, 1}, {narrow, wide, NAN}}));
  EXPECT_EQ(static_cast<float>(record["bias"][0].get<double>()), 0.003F);
  EXPECT_EQ(record["bias"][0].dump(), "0.003");
  EXPECT_EQ(record["bias"][1].get<double>(), wide);
  EXPECT_TRUE(record["bias"][2].is_null());
}

TEST(ExpertLoadFile, HoldsTheFirstTheLastAndEveryStepOfThePeriod) {
  const TemporaryFolder folder;
  file_of_steps(folder / "e.jsonl", 24, 10);
  EXPECT_EQ(load_steps(folder / "e.jsonl"), (std::vector<int64_t>{0, 10, 20, 23}));
  file_of_steps(folder / "e.jsonl", 21, 10);
  EXPECT_EQ(load_steps(folder / "e.jsonl"), (std::vector<int64_t>{0, 10, 20}));
  file_of_steps(folder / "e.jsonl", 1, 10);
  EXPECT_EQ(load_steps(folder / "e.jsonl"), (std::vector<int64_t>{0}));
  file_of_steps(folder / "e.jsonl", 4, 1);
  EXPECT_EQ(load_steps(folder / "e.jsonl"), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(ExpertLoadFile, TheFirstStepOfARunNeedNotBeZero) {
  const TemporaryFolder folder;
  ExpertLoadFile file(folder / "e.jsonl", 10, std::nullopt);
  write_steps(file, 3, 6);
  file.close();
  EXPECT_EQ(load_steps(folder / "e.jsonl"), (std::vector<int64_t>{3, 5}));
}

TEST(ExpertLoadFile, AfterEveryFlushTheFileIsThatOfARunThatEndsThere) {
  const TemporaryFolder folder;
  ExpertLoadFile file(folder / "e.jsonl", 4, std::nullopt);
  for (int64_t step = 0; step < 10; ++step) {
    write_steps(file, step, step + 1);
    if (step % 2 == 0) file.flush();
    if (step % 2 == 1) file.sync();
    ASSERT_EQ(content_of(folder / "e.jsonl"), file_of_steps(folder / "other.jsonl", step + 1, 4)) << step;
  }
}

TEST(ExpertLoadFile, AResumedRunHasTheFileOfOneThatNeverStopped) {
  const TemporaryFolder folder;
  const std::string whole = file_of_steps(folder / "whole.jsonl", 24, 5);
  for (const bool is_closed : {false, true}) {
    // Checkpoint after step `saved`, end after step `last`, killed without a close or ended properly.
    for (const int64_t saved : {0, 3, 4, 5, 6}) {
      for (const int64_t last : {saved, saved + 1, saved + 4}) {
        const std::filesystem::path path = folder / "e.jsonl";
        {
          ExpertLoadFile file(path, 5, std::nullopt);
          write_steps(file, 0, saved + 1);
          file.sync();
          write_steps(file, saved + 1, last + 1);
          if (is_closed) file.close();
        }
        ExpertLoadFile resumed(path, 5, saved + 1);
        write_steps(resumed, saved + 1, 24);
        resumed.close();
        ASSERT_EQ(content_of(path), whole) << "saved " << saved << ", last " << last;
      }
    }
  }
}

TEST(ExpertLoadFile, AResumeThatTrainsNothingMoreKeepsTheLastStep) {
  const TemporaryFolder folder;
  const std::string whole = file_of_steps(folder / "e.jsonl", 8, 5);
  ExpertLoadFile(folder / "e.jsonl", 5, 8).close();
  EXPECT_EQ(content_of(folder / "e.jsonl"), whole);
}

TEST(ExpertLoadFile, AResumeDropsALineThatAKilledRunLeftHalfWritten) {
  const TemporaryFolder folder;
  const std::string whole = file_of_steps(folder / "e.jsonl", 6, 5);
  const size_t torn_begin = whole.rfind('\n', whole.size() - 2) + 1;
  for (size_t size = torn_begin + 1; size < whole.size(); size += 7) {
    std::ofstream(folder / "e.jsonl", std::ios::binary) << whole.substr(0, size);
    ExpertLoadFile file(folder / "e.jsonl", 5, 5);
    write_steps(file, 5, 6);
    file.close();
    ASSERT_EQ(content_of(folder / "e.jsonl"), whole) << size;
  }
}

TEST(ExpertLoadFile, ExistsOnlyIfSomethingWasWritten) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "e.jsonl";
  {
    ExpertLoadFile file(path, 5, std::nullopt);
    file.write(0, {});
    file.flush();
    file.sync();
    file.close();
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  ExpertLoadFile(path, 5, 7).close();
  EXPECT_FALSE(std::filesystem::exists(path));
  file_of_steps(path, 3, 5);
  ExpertLoadFile(path, 5, std::nullopt).close();
  EXPECT_FALSE(std::filesystem::exists(path)) << "a fresh run under an old name starts over";
}

WriterOptions load_options(const TemporaryFolder& folder) {
  WriterOptions options;
  options.run_name = "r";
  options.run_dir = folder / "r";
  options.expert_load_period = 10;
  return options;
}

TEST(MetricsWriter, KeepsTheExpertLoadOfARunThatEndsByAnException) {
  const TemporaryFolder folder;
  const auto stopped_run = [&] {
    MetricsWriter writer(load_options(folder));
    for (int64_t step = 0; step < 14; ++step) writer.write_expert_load(step, loads_at(step));
    throw std::runtime_error("stopped");
  };
  EXPECT_THROW(stopped_run(), std::runtime_error);
  EXPECT_EQ(load_steps(folder / "r/expert_load.jsonl"), (std::vector<int64_t>{0, 10, 13}));
}

TEST(MetricsWriter, ContinuesTheExpertLoadOfAResumedRunAndLeavesItAloneInAnEvaluation) {
  const TemporaryFolder folder;
  WriterOptions options = load_options(folder);
  {
    MetricsWriter writer(options);
    for (int64_t step = 0; step < 14; ++step) writer.write_expert_load(step, loads_at(step));
    writer.sync();
    EXPECT_EQ(load_steps(folder / "r/expert_load.jsonl"), (std::vector<int64_t>{0, 10, 13}));
  }
  options.resume_from_step = 12;
  {
    MetricsWriter writer(options);
    for (int64_t step = 12; step < 22; ++step) writer.write_expert_load(step, loads_at(step));
  }
  const std::string content = content_of(folder / "r/expert_load.jsonl");
  EXPECT_EQ(load_steps(folder / "r/expert_load.jsonl"), (std::vector<int64_t>{0, 10, 20, 21}));
  options.resume_from_step = kKeepAllSteps;
  MetricsWriter(options).write({"eval", 21, {}});
  EXPECT_EQ(content_of(folder / "r/expert_load.jsonl"), content);
}

TEST(MetricsWriter, HasNoExpertLoadFileWithoutExperts) {
  const TemporaryFolder folder;
  MetricsWriter(load_options(folder)).write({"train", 0, {}});
  EXPECT_FALSE(std::filesystem::exists(folder / "r/expert_load.jsonl"));
}

}  // namespace
}  // namespace ballast
