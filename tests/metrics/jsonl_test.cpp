// SPDX-License-Identifier: Apache-2.0
#include "metrics/jsonl.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "errors/errors.h"
#include "metrics/temporary_folder.h"

namespace ballast {
namespace {

Record record_of(const std::string& kind, int64_t step, double loss) {
  return {kind, step, {{"learning/loss", loss}}};
}

void write_all(const std::filesystem::path& path, const std::vector<int64_t>& steps, std::optional<int64_t> resume) {
  JsonLines file(path, "r", resume);
  for (const int64_t step : steps) file.write(record_of("train", step, 0.5));
  file.close();
}

std::vector<int64_t> steps_of(const std::filesystem::path& path) {
  std::vector<int64_t> steps;
  for (const std::string& line : lines_of(path)) steps.push_back(nlohmann::json::parse(line).at("step"));
  return steps;
}

TEST(JsonLine, NamesKindStepAndRunBeforeTheScalarsInOrder) {
  Record record{"train", 12, {}};
  record.set("learning/loss", 3.25);
  record.set("learning/total_weights", 8192);
  EXPECT_EQ(
      json_line(record, "my \"run\""),
      R"({"kind":"train","step":12,"run_name":"my \"run\"","learning/loss":3.25,"learning/total_weights":8192.0})");
}

TEST(JsonLine, KeepsFullPrecision) {
  const double value = 0.1 + 0.2;  // 0.30000000000000004
  const auto parsed = nlohmann::json::parse(json_line(record_of("train", 0, value), "r"));
  EXPECT_EQ(parsed.at("learning/loss").get<double>(), value);
}

TEST(JsonLine, StaysJsonWithValuesThatAreNotFinite) {
  Record record{"train", 1, {}};
  record.set("a", std::numeric_limits<double>::quiet_NaN());
  record.set("b", -std::numeric_limits<double>::infinity());
  record.set("c", 1.5);
  EXPECT_EQ(
      json_line(record, "r"),
      R"({"kind":"train","step":1,"run_name":"r","a":null,"b":null,"c":1.5,"non_finite":{"a":"nan","b":"-inf"}})");
}

TEST(JsonLines, StartEmptyForAFreshRun) {
  const TemporaryFolder folder;
  write_all(folder / "new/m.jsonl", {0, 1, 2}, std::nullopt);
  write_all(folder / "new/m.jsonl", {0}, std::nullopt);
  EXPECT_EQ(steps_of(folder / "new/m.jsonl"), (std::vector<int64_t>{0}));
}

TEST(JsonLines, ResumeDropsWhatTheRunWillDoAgain) {
  const TemporaryFolder folder;
  write_all(folder / "m.jsonl", {0, 1, 2, 3, 4}, std::nullopt);
  write_all(folder / "m.jsonl", {3, 4, 5}, 3);
  EXPECT_EQ(steps_of(folder / "m.jsonl"), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
}

TEST(JsonLines, EvaluationRecordsDoNotTouchTheTrainingHistory) {
  const TemporaryFolder folder;
  JsonLines file(folder / "m.jsonl", "r", std::nullopt);
  file.write(record_of("train", 0, 1));
  file.write(record_of("eval", 0, 2));
  file.write(record_of("train", 1, 3));
  file.close();
  const auto lines = lines_of(folder / "m.jsonl");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(nlohmann::json::parse(lines[1]).at("kind"), "eval");
}

// A run can be killed after any byte of its last line.
TEST(JsonLines, ResumeRemovesALastLineTornAtAnyByte) {
  const TemporaryFolder folder;
  const std::string whole = json_line(record_of("train", 0, 1), "r") + "\n";
  const std::string torn = json_line(record_of("train", 1, 2), "r");
  for (size_t size = 0; size < torn.size(); ++size) {
    std::ofstream(folder / "m.jsonl") << whole << torn.substr(0, size);
    write_all(folder / "m.jsonl", {1}, 1);
    ASSERT_EQ(steps_of(folder / "m.jsonl"), (std::vector<int64_t>{0, 1})) << "torn after " << size << " bytes";
  }
}

TEST(JsonLines, ResumeKeepsACompleteLastLineThatLacksItsLineBreak) {
  const TemporaryFolder folder;
  std::ofstream(folder / "m.jsonl") << json_line(record_of("train", 0, 1), "r");
  write_all(folder / "m.jsonl", {1}, 1);
  EXPECT_EQ(steps_of(folder / "m.jsonl"), (std::vector<int64_t>{0, 1}));
}

TEST(JsonLines, ResumeWarnsOfADamagedLineInTheMiddle) {
  const TemporaryFolder folder;
  const std::string whole = json_line(record_of("train", 0, 1), "r") + "\n";
  std::ofstream(folder / "m.jsonl") << "damage\n" << whole;
  testing::internal::CaptureStderr();
  write_all(folder / "m.jsonl", {1}, 1);
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_NE(warning.find("m.jsonl:1 is not a metrics record"), std::string::npos) << warning;
  EXPECT_EQ(steps_of(folder / "m.jsonl"), (std::vector<int64_t>{0, 1}));
}

TEST(JsonLines, ResumeWithoutAnEarlierFileStartsOne) {
  const TemporaryFolder folder;
  write_all(folder / "m.jsonl", {5}, 5);
  EXPECT_EQ(steps_of(folder / "m.jsonl"), (std::vector<int64_t>{5}));
}

TEST(JsonLines, AFullDiskIsAnErrorThatNamesTheFile) {
  JsonLines file("/dev/full", "r", std::nullopt);
  file.write(record_of("train", 0, 1));
  try {
    file.flush();
    FAIL() << "a full disk must not pass";
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("/dev/full"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("No space left"), std::string::npos) << error.what();
  }
}

TEST(JsonLines, AFolderInPlaceOfTheFileIsAnError) {
  const TemporaryFolder folder;
  EXPECT_THROW(JsonLines(folder.path(), "r", std::nullopt), DataError);
}

}  // namespace
}  // namespace ballast
