// SPDX-License-Identifier: Apache-2.0
// Tokens per second that forget accumulation: karpathy/nanochat#175, axolotl-ai-cloud/axolotl#3688.
#include <regex>

#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

TEST(NanoChat175, RateTimesSecondsIsTheTokensOfTheWholeStep) {
  for (const int accumulation : {1, 4}) {
    const double tokens = 2 * 32 * accumulation;
    const ProgramFolder folder;
    const ProgramResult result =
        folder.run(tiny_run({"steps=3", "gradient_accumulation_steps=" + std::to_string(accumulation)}));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const auto records = read_records(folder.path() / "out/t/metrics.jsonl", "train");
    ASSERT_EQ(records.size(), 3U);
    for (const nlohmann::json& record : records) {
      const double rate = record.at("perf/per_device_tokens_per_sec"), seconds = record.at("perf/step_time_seconds");
      EXPECT_EQ(record.at("perf/per_device_tokens"), tokens);
      EXPECT_NEAR(rate * seconds, tokens, 1e-9 * tokens);
    }
    // The console prints the same two numbers with three digits behind the point.
    const std::regex line("seconds: (\\S+), TFLOP/s/device: \\S+, Tokens/s/device: (\\S+),");
    std::smatch match;
    ASSERT_TRUE(std::regex_search(result.out, match, line)) << result.out;
    EXPECT_NEAR(std::stod(match[1]), records[0].at("perf/step_time_seconds").get<double>(), 5.1e-4);
    EXPECT_NEAR(std::stod(match[2]), records[0].at("perf/per_device_tokens_per_sec").get<double>(), 5.1e-4);
  }
}

}  // namespace
}  // namespace ballast::testing
