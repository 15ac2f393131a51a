// SPDX-License-Identifier: Apache-2.0
// A device peak that is off by two behind a utilisation nobody can check: allenai/OLMo-core CHANGELOG (A100 peak).
#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

TEST(OlmoCorePeak, ThePeakAndItsSourceArePrintedAndUtilisationIsOverIt) {
  const ProgramFolder folder;
  const ProgramResult result = folder.run(tiny_run({"steps=2", "peak_tflops_per_device=0.25"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("peak: 0.25 TFLOP/s a device (peak_tflops_per_device, command line)\n"), std::string::npos)
      << result.err;
  for (const nlohmann::json& record : read_records(folder.path() / "out/t/metrics.jsonl", "train")) {
    const double rate = record.at("perf/per_device_tflops_per_sec");
    EXPECT_NEAR(record.at("perf/mfu").get<double>(), rate / 0.25, 1e-12);
  }
}

TEST(OlmoCorePeak, WithoutAKnownPeakThereIsNoUtilisation) {
  const ProgramFolder folder;
  const ProgramResult result = folder.run(tiny_run({"steps=1"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err.find("peak:"), std::string::npos) << result.err;
  EXPECT_FALSE(read_records(folder.path() / "out/t/metrics.jsonl", "train").at(0).contains("perf/mfu"));
}

}  // namespace
}  // namespace ballast::testing
