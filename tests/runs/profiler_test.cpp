// SPDX-License-Identifier: Apache-2.0
// profiler=xplane on a run of the program.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "support/program.h"

namespace ballast::testing {
namespace {

constexpr const char* kTraceFolder = "out/t/tensorboard/t/plugins/profile";

std::set<std::string> traces_of(const ProgramFolder& folder) {
  std::set<std::string> names;
  if (!std::filesystem::exists(folder.path() / kTraceFolder)) return names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / kTraceFolder)) {
    names.insert(entry.path().filename());
  }
  return names;
}

/// How often each operator of a trace ran.
std::map<std::string, int> operators_of(const std::filesystem::path& path) {
  std::map<std::string, int> counts;
  const nlohmann::json trace = nlohmann::json::parse(read_text(path));
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.value("ph", "") == "X") ++counts[event.at("name").get<std::string>()];
  }
  return counts;
}

TEST(Profiler, WritesATraceOfTheAskedStepsThatNamesTheirProducts) {
  const ProgramFolder folder;
  const ProgramResult result =
      folder.run(tiny_run({"profiler=xplane", "skip_first_n_steps_for_profiler=2", "profiler_steps=2"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("profile of steps 2 to 3"), std::string::npos) << result.err;
  ASSERT_EQ(traces_of(folder), std::set<std::string>{"steps_2_to_3.pt.trace.json"});
  const auto counts = operators_of(folder.path() / kTraceFolder / "steps_2_to_3.pt.trace.json");
  EXPECT_EQ(counts.count("train step 2"), 1U);
  EXPECT_EQ(counts.count("train step 3"), 1U);
  EXPECT_EQ(counts.count("train step 1"), 0U);
  EXPECT_EQ(counts.count("train step 4"), 0U);
  // Two layers of seven matrices and the head, forward and twice backward, in two steps.
  EXPECT_GE(counts.at("aten::mm"), 2 * 2 * 7 * 3);
}

TEST(Profiler, RepeatsAndEndsWithTheRunAndMovesNoNumbers) {
  const ProgramFolder with, without;
  ASSERT_EQ(with.run(tiny_run({"profiler=xplane", "skip_first_n_steps_for_profiler=0", "profiler_steps=2",
                               "profile_periodically_period=5"}))
                .exit_code,
            0);
  EXPECT_EQ(traces_of(with), (std::set<std::string>{"steps_0_to_1.pt.trace.json", "steps_5_to_5.pt.trace.json"}));
  ASSERT_EQ(without.run(tiny_run()).exit_code, 0);
  EXPECT_TRUE(traces_of(without).empty());
  EXPECT_EQ(series(read_records(with.path() / "out/t/metrics.jsonl", "train"), "learning/loss"),
            series(read_records(without.path() / "out/t/metrics.jsonl", "train"), "learning/loss"));
}

TEST(Profiler, RefusesWindowsThatOverlap) {
  const ProgramFolder folder;
  const ProgramResult result =
      folder.run(tiny_run({"profiler=xplane", "profiler_steps=3", "profile_periodically_period=2"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("profile_periodically_period=2"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace ballast::testing
