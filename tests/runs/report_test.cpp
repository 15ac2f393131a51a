// SPDX-License-Identifier: Apache-2.0
// `ballast report` on a run of the program.
#include <gtest/gtest.h>

#include "support/program.h"

namespace ballast::testing {
namespace {

TEST(Report, WritesOnePageBesideTheMetricsOfARun) {
  const ProgramFolder folder;
  ASSERT_EQ(folder.run(tiny_run({"eval_interval=3", "eval_steps=1"})).exit_code, 0);
  const ProgramResult result = folder.run({"report", "out/t"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "out/t/report.html\n");
  EXPECT_EQ(result.err, "");
  const std::string page = read_text(folder.path() / "out/t/report.html");
  const auto last = read_records(folder.path() / "out/t/metrics.jsonl", "train").back();
  EXPECT_NE(page.find("<td>learning/loss</td><td>" + last.at("learning/loss").dump() + "</td>"), std::string::npos);
  EXPECT_NE(page.find("<h1>t</h1>"), std::string::npos);
  EXPECT_NE(page.find("(best)"), std::string::npos);
  ASSERT_EQ(folder.run({"report", "out/t", "--out", "copy.html"}).exit_code, 0);
  EXPECT_EQ(read_text(folder.path() / "copy.html"), page);
}

TEST(Report, WorksForARunThatWasKilledInTheMiddleOfALine) {
  const ProgramFolder folder;
  std::filesystem::create_directory(folder.path() / "r");
  folder.file("r/metrics.jsonl",
              "{\"kind\":\"train\",\"step\":0,\"run_name\":\"r\",\"learning/loss\":2.5}\n{\"kind\":\"tra");
  const ProgramResult result = folder.run({"report", "r"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("line 2, the last one, is not whole"), std::string::npos) << result.err;
  EXPECT_NE(read_text(folder.path() / "r/report.html").find("is not whole"), std::string::npos);
}

TEST(Report, RefusesWhatIsNoRunWithOneLine) {
  const ProgramFolder folder;
  std::filesystem::create_directory(folder.path() / "r");
  struct Case {
    std::vector<std::string> words;
    int exit_code;
    const char* part;
  };
  for (const Case& one :
       {Case{{"report"}, 2, "the folder of a run is missing"}, Case{{"report", "r", "--out"}, 2, "lacks its value"},
        Case{{"report", "r", "--width=3"}, 2, "--width=3"}, Case{{"report", "none"}, 3, "none: no such folder"},
        Case{{"report", "r"}, 3, "metrics.jsonl: cannot be read"}}) {
    const ProgramResult result = folder.run(one.words);
    EXPECT_EQ(result.exit_code, one.exit_code) << result.err;
    EXPECT_NE(result.err.find(one.part), std::string::npos) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
  folder.file("r/metrics.jsonl", "");
  EXPECT_EQ(folder.run({"report", "r"}).exit_code, 3);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "r/report.html"));
}

}  // namespace
}  // namespace ballast::testing
