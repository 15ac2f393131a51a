// SPDX-License-Identifier: Apache-2.0
#include "metrics/expert_load_history.h"

#include <gtest/gtest.h>

#include <cmath>

#include "errors/errors.h"
#include "metrics/expert_load_file.h"
#include "metrics/temporary_folder.h"

namespace ballast {
namespace {

const std::string kLoad00 = R"({"step":0,"layer":0,"routing":"hash","counts":[4,0]})";
const std::string kLoad02 = R"({"step":0,"layer":2,"routing":"top_k","counts":[1,3],"bias":[0.5,-0.5]})";
const std::string kLoad50 = R"({"step":5,"layer":0,"routing":"hash","counts":[3,1]})";
const std::string kLoad52 = R"({"step":5,"layer":2,"routing":"top_k","counts":[2,2],"bias":[0.25,null]})";

LoadHistory loads_of(const std::string& text) {
  const TemporaryFolder folder;
  std::ofstream(folder / "expert_load.jsonl", std::ios::binary) << text;
  return read_expert_load(folder / "expert_load.jsonl");
}

/// The error line from the name of the file on.
std::string load_error_of(const std::string& text) {
  try {
    loads_of(text);
  } catch (const DataError& error) {
    const std::string line = error.what();
    return line.substr(std::min(line.find("expert_load.jsonl"), line.size()));
  }
  return "no DataError";
}

TEST(ExpertLoadHistory, HoldsEveryStepAndLayer) {
  const LoadHistory history = loads_of(kLoad00 + "\n" + kLoad02 + "\n" + kLoad50 + "\n" + kLoad52 + "\n");
  ASSERT_EQ(history.steps.size(), 2U);
  EXPECT_EQ(history.steps[1].step, 5);
  ASSERT_EQ(history.steps[1].layers.size(), 2U);
  EXPECT_TRUE(history.steps[0].layers[0].is_hash_routed);
  EXPECT_TRUE(history.steps[0].layers[0].bias.empty());
  EXPECT_EQ(history.steps[0].layers[1].layer, 2);
  EXPECT_EQ(history.steps[0].layers[1].counts, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(history.steps[0].layers[1].bias, (std::vector<double>{0.5, -0.5}));
  EXPECT_TRUE(std::isnan(history.steps[1].layers[1].bias[1]));
  EXPECT_TRUE(history.notes.empty());
}

TEST(ExpertLoadHistory, ReadsBackWhatTheFileWrites) {
  const TemporaryFolder folder;
  ExpertLoadFile file(folder / "expert_load.jsonl", 1, std::nullopt);
  const LayerLoad load{3, false, {7, 0, 12}, {0.1, 1e-9, -2}};
  file.write(4, {load});
  file.close();
  const LoadHistory history = read_expert_load(expert_load_path(folder.path()));
  ASSERT_EQ(history.steps.size(), 1U);
  EXPECT_EQ(history.steps[0].step, 4);
  EXPECT_EQ(history.steps[0].layers[0].counts, load.counts);
  EXPECT_EQ(history.steps[0].layers[0].bias, load.bias);
  EXPECT_EQ(expert_load_path(folder / "expert_load.jsonl"), folder / "expert_load.jsonl");
}

TEST(ExpertLoadHistory, LeavesOutATornLastLineAndItsStep) {
  const std::string steps = kLoad00 + "\n" + kLoad02 + "\n" + kLoad50 + "\n" + kLoad52;
  EXPECT_EQ(loads_of(steps).steps.size(), 2U) << "only the line break is missing";
  for (size_t cut = 1; cut < kLoad52.size(); ++cut) {
    const LoadHistory history = loads_of(steps.substr(0, steps.size() - cut));
    ASSERT_EQ(history.steps.size(), 1U) << cut;
    ASSERT_EQ(history.notes.size(), 2U) << cut;
    EXPECT_EQ(history.notes[0], "line 4, the last one, is not whole; it is left out");
    EXPECT_EQ(history.notes[1], "step 5, the last one, lacks layers; it is left out");
  }
}

TEST(ExpertLoadHistory, NamesFileLineAndFaultOfADamagedLine) {
  const std::pair<std::string, std::string> cases[] = {
      {"damage", "is no record; got damage, need a JSON object with step, layer, routing and counts"},
      {"[1]", "is no record; got [1], need"},
      {"{\"step\":" + std::string(100000, '[') + std::string(100000, ']') + "}", "is no record; got {\"step\":[[["},
      {R"({"layer":2,"routing":"hash","counts":[1,2]})", "has no valid \"step\"; got none, need a whole number from 0"},
      {R"({"step":0.5,"layer":2,"routing":"hash","counts":[1,2]})", "has no valid \"step\"; got 0.5, need"},
      {R"({"step":0,"layer":-1,"routing":"hash","counts":[1,2]})", "has no valid \"layer\"; got -1, need"},
      {R"({"step":0,"layer":18446744073709551615,"routing":"hash","counts":[1,2]})",
       "has no valid \"layer\"; got 1844"},
      {R"({"step":0,"layer":2,"routing":"free","counts":[1,2]})",
       "has no valid \"routing\"; got \"free\", need \"top_k\" or \"hash\""},
      {R"({"step":0,"layer":2,"counts":[1,2]})", "has no valid \"routing\"; got none, need"},
      {R"({"step":0,"layer":2,"routing":"hash"})", "has no valid \"counts\"; got none, need"},
      {R"({"step":0,"layer":2,"routing":"hash","counts":[]})", "has no valid \"counts\"; got [], need"},
      {R"({"step":0,"layer":2,"routing":"hash","counts":[1,-2]})", "has a count that is none; got -2, need"},
      {R"({"step":0,"layer":2,"routing":"hash","counts":[9007199254740992,1]})",
       "has counts that are too large together; got 1, need at most 2^53"},
      {R"({"step":0,"layer":2,"routing":"hash","counts":[1,"2"]})", "has a count that is none; got \"2\", need"},
      {R"({"step":0,"layer":2,"routing":"top_k","counts":[1,2],"bias":[1]})",
       "has no valid \"bias\"; got 1 numbers, need 2 numbers, one an expert"},
      {R"({"step":0,"layer":2,"routing":"top_k","counts":[1,2],"bias":3})", "has no valid \"bias\"; got 3, need"},
      {R"({"step":0,"layer":2,"routing":"top_k","counts":[1,2],"bias":[1,"x"]})", "has a bias that is no number; got"},
      {R"({"step":0,"layer":0,"routing":"hash","counts":[1,2]})", "repeats a layer of its step; got 0, need"},
  };
  for (const auto& [line, fault] : cases) {
    const std::string error = load_error_of(kLoad00 + "\n" + line + "\n" + kLoad50 + "\n");
    EXPECT_TRUE(error.starts_with("expert_load.jsonl:2: " + fault)) << line << " gave " << error;
  }
}

TEST(ExpertLoadHistory, AFlippedBitIsReadOrNamed) {
  const std::string whole = kLoad00 + "\n" + kLoad02 + "\n" + kLoad50 + "\n" + kLoad52 + "\n";
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    const std::string error = load_error_of(damaged);  // any other exception ends the test
    EXPECT_TRUE(error == "no DataError" || error.starts_with("expert_load.jsonl:")) << i << ": " << error;
  }
}

TEST(ExpertLoadHistory, RefusesStepsThatDoNotFitTogether) {
  const std::string step0 = kLoad00 + "\n" + kLoad02 + "\n", step5 = kLoad50 + "\n" + kLoad52 + "\n";
  EXPECT_TRUE(load_error_of(step5 + step0).starts_with("expert_load.jsonl:3: goes back to an earlier step; got 0,"));
  const std::string step9 = R"({"step":9,"layer":0,"routing":"hash","counts":[3,1]})";
  EXPECT_TRUE(load_error_of(step0 + kLoad50 + "\n" + step9 + "\n")
                  .starts_with("expert_load.jsonl:4: begins a step where the one before lacks layers; got 1, need 2"));
  EXPECT_TRUE(load_error_of(step0 + kLoad52 + "\n")
                  .starts_with("expert_load.jsonl:3: does not fit the first step of the file; got layer 2,"));
  EXPECT_TRUE(load_error_of(step0 + R"({"step":5,"layer":0,"routing":"hash","counts":[3,1,2]})" + "\n")
                  .starts_with("expert_load.jsonl:3: does not fit the first step of the file; got layer 0,"));
}

TEST(ExpertLoadHistory, SaysWhatToTryWhereThereIsNothing) {
  const std::string tip =
      "try the folder of a run of a model with experts; expert_load_period says how many steps are recorded";
  EXPECT_NE(load_error_of("").find("holds no record; need at least one step; " + tip), std::string::npos)
      << load_error_of("");
  EXPECT_NE(load_error_of("{\"step\":").find("holds no record"), std::string::npos);
  try {
    read_expert_load("/nowhere/expert_load.jsonl");
    FAIL() << "a missing file must not pass";
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("/nowhere/expert_load.jsonl: cannot be read"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find(tip), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ballast
