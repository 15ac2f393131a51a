// SPDX-License-Identifier: Apache-2.0
#include "metrics/run_history.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "errors/errors.h"
#include "metrics/jsonl.h"
#include "metrics/temporary_folder.h"

namespace ballast {
namespace {

constexpr const char* kStep0 = R"({"kind":"train","step":0,"run_name":"r","learning/loss":3.5,"learning/z_loss":0.25})";
constexpr const char* kStep1 = R"({"kind":"train","step":1,"run_name":"r","learning/loss":3.0})";
constexpr const char* kEval1 = R"({"kind":"eval","step":1,"run_name":"r","eval/avg_loss":2.75})";

RunHistory history_of(const std::string& text) {
  const TemporaryFolder folder;
  std::ofstream(folder / "metrics.jsonl", std::ios::binary) << text;
  return read_run_history(folder / "metrics.jsonl");
}

std::string error_of(const std::filesystem::path& path) {
  try {
    read_run_history(path);
  } catch (const DataError& error) {
    return error.what();
  }
  return "no DataError";
}

TEST(RunHistory, KeepsValuesByTagAndSkipsStepsWithoutIt) {
  const RunHistory history = history_of(std::string(kStep0) + "\n" + kEval1 + "\n" + kStep1 + "\n");
  EXPECT_EQ(history.run_name, "r");
  ASSERT_EQ(history.series("learning/loss").size(), 2U);
  EXPECT_EQ(history.series("learning/loss")[1].step, 1);
  EXPECT_EQ(history.series("learning/loss")[1].value, 3.0);
  EXPECT_EQ(history.series("learning/z_loss").size(), 1U);
  EXPECT_TRUE(history.series("no such tag").empty());
  EXPECT_EQ(history.last_train.step, 1);
  ASSERT_EQ(history.evals.size(), 1U);
  EXPECT_EQ(history.evals[0].get("eval/avg_loss"), 2.75);
  EXPECT_TRUE(history.notes.empty());
}

TEST(RunHistory, ReadsBackWhatTheWriterWrites) {
  const TemporaryFolder folder;
  Record record{"train", 7, {}};
  record.set("learning/loss", 0.1 + 0.2);
  record.set("a", std::numeric_limits<double>::quiet_NaN());
  record.set("b", -std::numeric_limits<double>::infinity());
  record.set("c", std::numeric_limits<double>::infinity());
  JsonLines file(folder / "m.jsonl", "a \"name\"", {});
  file.write(record);
  file.close();
  const RunHistory history = read_run_history(folder / "m.jsonl");
  EXPECT_EQ(history.run_name, "a \"name\"");
  EXPECT_EQ(history.last_train.scalars[0], record.scalars[0]);
  EXPECT_TRUE(std::isnan(history.series("a")[0].value));
  EXPECT_EQ(history.series("b")[0].value, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(history.series("c")[0].value, std::numeric_limits<double>::infinity());
}

TEST(RunHistory, LeavesOutATornLastLineWithANote) {
  const std::string whole = std::string(kStep0) + "\n" + kStep1;
  const RunHistory complete = history_of(whole);  // a missing line break alone is nothing to complain about
  EXPECT_EQ(complete.series("learning/loss").size(), 2U);
  EXPECT_TRUE(complete.notes.empty());
  for (size_t cut = 1; cut < std::string(kStep1).size(); ++cut) {
    const RunHistory history = history_of(whole.substr(0, whole.size() - cut));
    EXPECT_EQ(history.series("learning/loss").size(), 1U) << cut;
    ASSERT_EQ(history.notes.size(), 1U) << cut;
    EXPECT_NE(history.notes[0].find("line 2, the last one"), std::string::npos) << history.notes[0];
  }
}

TEST(RunHistory, LeavesOutDamagedLinesWithOneNote) {
  const RunHistory history =
      history_of(std::string(kStep0) + "\n{\"kind\":1}\n[]\n{\"kind\":\"train\",\"step\":1e300}\n" + kStep1 + "\n");
  EXPECT_EQ(history.series("learning/loss").size(), 2U);
  ASSERT_EQ(history.notes.size(), 1U);
  EXPECT_NE(history.notes[0].find("3 damaged line(s), the first is line 2"), std::string::npos) << history.notes[0];
}

TEST(RunHistory, TakesANonFiniteTableThatIsNoTableAsNan) {
  for (const char* table : {"3", "[]", "{}", R"({"a":4})"}) {
    const RunHistory history =
        history_of(std::string(R"({"kind":"train","step":0,"a":null,"non_finite":)") + table + "}\n");
    EXPECT_TRUE(std::isnan(history.series("a")[0].value)) << table;
  }
}

TEST(RunHistory, NamesAFileThatIsMissingOrHoldsNoRecord) {
  const TemporaryFolder folder;
  EXPECT_NE(error_of(folder / "none.jsonl").find("none.jsonl: cannot be read"), std::string::npos);
  EXPECT_NE(error_of(folder.path()).find("cannot be read"), std::string::npos);
  std::ofstream(folder / "empty.jsonl") << "";
  EXPECT_NE(error_of(folder / "empty.jsonl").find("empty.jsonl: holds no record"), std::string::npos);
  std::ofstream(folder / "text.jsonl") << "not a record\n";
  EXPECT_NE(error_of(folder / "text.jsonl").find("text.jsonl: holds no record"), std::string::npos);
}

}  // namespace
}  // namespace ballast
