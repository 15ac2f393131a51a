// SPDX-License-Identifier: Apache-2.0
// Whole runs of the program.
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "support/program.h"

namespace ballast::testing {
namespace {

TEST(Train, PrintsMaxTextsLinesAndWritesEveryRecord) {
  const ProgramFolder folder;
  const ProgramResult result = folder.run(tiny_run({"warmup_steps_fraction=0.2"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::regex line(
      R"(completed step: (\d+), seconds: \d+\.\d{3}, TFLOP/s/device: \d+\.\d{3}, Tokens/s/device: \d+\.\d{3}, )"
      R"(total_weights: 64, loss: \d+\.\d{3}, lm_loss: \d+\.\d{3}, perplexity: \d+\.\d{3})");
  int count = 0;
  for (std::sregex_iterator match(result.out.begin(), result.out.end(), line), end; match != end; ++match) {
    EXPECT_EQ(std::stoi((*match)[1]), count++);
  }
  EXPECT_EQ(count, 6) << result.out;
  EXPECT_NE(result.out.find("number parameters: "), std::string::npos);
  const auto records = read_records(folder.path() / "out/t/metrics.jsonl", "train");
  ASSERT_EQ(records.size(), 6U);
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].at("step"), i);
    EXPECT_EQ(records[i].at("run_name"), "t");
    EXPECT_NEAR(records[i].at("learning/perplexity").get<double>(),
                std::exp(records[i].at("learning/lm_loss").get<double>()), 1e-9);
  }
  // The first step of a warmup has rate 0, so steps 0 and 1 see the same weights and the same batch.
  EXPECT_EQ(records[0].at("learning/current_learning_rate"), 0.0);
  EXPECT_EQ(records[1].at("learning/loss"), records[0].at("learning/loss"));
  EXPECT_LT(records[5].at("learning/loss").get<double>(), records[0].at("learning/loss").get<double>());
}

TEST(Train, TwoRunsAreBitEqual) {
  const ProgramFolder first, second;
  ASSERT_EQ(first.run(tiny_run()).exit_code, 0);
  ASSERT_EQ(second.run(tiny_run()).exit_code, 0);
  const auto a = read_records(first.path() / "out/t/metrics.jsonl", "train");
  const auto b = read_records(second.path() / "out/t/metrics.jsonl", "train");
  for (const char* tag : {"learning/loss", "learning/raw_grad_norm", "learning/param_norm"}) {
    EXPECT_EQ(series(a, tag), series(b, tag));
  }
}

// bug case V01: the cut into micro-batches must not change what is learned.
TEST(Train, AccumulationAndRematerializationKeepTheNumbers) {
  const ProgramFolder whole, cut;
  ASSERT_EQ(whole.run(tiny_run({"per_device_batch_size=4", "remat_policy=none"})).exit_code, 0);
  ASSERT_EQ(cut.run(tiny_run({"per_device_batch_size=1", "gradient_accumulation_steps=4", "num_vocab_tiling=2",
                              "remat_policy=full"}))
                .exit_code,
            0);
  const auto a = read_records(whole.path() / "out/t/metrics.jsonl", "train");
  const auto b = read_records(cut.path() / "out/t/metrics.jsonl", "train");
  for (const char* tag : {"learning/loss", "learning/raw_grad_norm", "learning/param_norm", "learning/total_weights"}) {
    for (size_t i = 0; i < a.size(); ++i) {
      // Differences of the first steps grow through AdamW's division by small moments.
      EXPECT_NEAR(b[i].at(tag).get<double>() / a[i].at(tag).get<double>(), 1.0, 1e-5) << tag << " step " << i;
    }
  }
}

// One stage of 6 rows at 2 rows a micro-batch and 2 micro-batches: ceil(6 / 4) = 2 steps, then 4 rows a micro-batch.
TEST(Train, TheBatchGrowsAtTheStart) {
  const ProgramFolder folder;
  const ProgramResult result =
      folder.run(tiny_run({"enable_rampup_batch_size=true", "per_device_batch_size=4", "per_device_batch_size_start=2",
                           "global_rampup_samples=6", "gradient_accumulation_steps=2", "steps=4"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto records = read_records(folder.path() / "out/t/metrics.jsonl", "train");
  EXPECT_EQ(series(records, "learning/total_weights"), (std::vector<double>{128, 128, 256, 256}));
  for (size_t i = 0; i < records.size(); ++i) {
    for (const char* tag : {"perf/per_device_tflops", "perf/per_device_tflops_per_sec", "perf/per_device_tokens",
                            "perf/per_device_tokens_per_sec"}) {
      EXPECT_EQ(records[i].contains(tag), i >= 2) << tag << " step " << i;
    }
  }
  EXPECT_NE(result.out.find("[Rampup Batch Size Phase], completed step: 1, seconds: "), std::string::npos)
      << result.out;
  EXPECT_EQ(result.out.find("[Rampup Batch Size Phase], completed step: 2"), std::string::npos) << result.out;
}

TEST(Train, EvaluationFollowsItsKeysAndChangesNothing) {
  const ProgramFolder with, without;
  const ProgramResult result = with.run(tiny_run({"eval_interval=2", "eval_steps=3"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  ASSERT_EQ(without.run(tiny_run()).exit_code, 0);
  const auto evaluations = read_records(with.path() / "out/t/metrics.jsonl", "eval");
  ASSERT_EQ(evaluations.size(), 3U);  // after steps 0, 2 and 4
  EXPECT_EQ(evaluations[1].at("step"), 2);
  EXPECT_EQ(evaluations[1].at("eval/total_weights"), 3 * 64);
  EXPECT_EQ(series(read_records(with.path() / "out/t/metrics.jsonl", "train"), "learning/loss"),
            series(read_records(without.path() / "out/t/metrics.jsonl", "train"), "learning/loss"));
}

TEST(Train, StopsBeforeTheUpdateWhenTheLossIsNotFinite) {
  const ProgramFolder folder;
  const ProgramResult result =
      folder.run(tiny_run({"learning_rate=1e30", "warmup_steps_fraction=0", "gradient_clipping_threshold=0"}));
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_NE(result.err.find("not finite"), std::string::npos) << result.err;
  const auto records = read_records(folder.path() / "out/t/metrics.jsonl", "train");
  ASSERT_GE(records.size(), 2U) << "the record of the failing step is on disk";
  EXPECT_TRUE(records.back().at("learning/loss").is_null() || records.back().at("learning/raw_grad_norm").is_null());
}

TEST(Train, SkipsStepsThatAreNotFiniteWhenAskedNotToAbort) {
  const ProgramFolder folder;
  const ProgramResult result =
      folder.run(tiny_run({"learning_rate=1e30", "warmup_steps_fraction=0", "gradient_clipping_threshold=0",
                           "abort_on_nan_loss=false", "abort_on_inf_loss=false"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto records = read_records(folder.path() / "out/t/metrics.jsonl", "train");
  ASSERT_EQ(records.size(), 6U);
  EXPECT_EQ(records.back().at("optim/step_skipped"), 1.0);
}

TEST(Train, ASignalEndsTheRunAfterTheStepWithItsMetricsOnDisk) {
  const ProgramFolder folder;
  const pid_t child = folder.start(tiny_run({"steps=1000000", "learning_rate_schedule_steps=1000"}));
  const auto metrics = folder.path() / "out/t/metrics.jsonl";
  for (int i = 0; i < 600 && read_text(folder.path() / "stdout.txt").find("completed step: 3,") == std::string::npos;
       ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  kill(child, SIGINT);
  const ProgramResult result = folder.wait_for(child);
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_NE(result.err.find("stopped by signal"), std::string::npos);
  const std::string last = result.out.substr(result.out.rfind("completed step: ") + 16);
  EXPECT_EQ(read_records(metrics, "train").back().at("step"), std::stoi(last)) << "every printed step is recorded";
}

TEST(Train, PrintConfigShowsValuesAndTheirOrigin) {
  const ProgramFolder folder;
  auto words = tiny_run({"--print_config", "model_name=llama3.2-1b", "override_model_config=true"});
  const ProgramResult result = folder.run(words);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(std::regex_search(result.out, std::regex(R"(steps = 6 +\(command line\))"))) << result.out;
  EXPECT_TRUE(std::regex_search(result.out, std::regex(R"(rope_max_timescale = \S+ +\(.*llama3\.2-1b\.yml:\d+\))")));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "out"));
}

// Ten losses of this program on its own synthetic data: a change that is not meant to move numbers must keep them. At
// this rate other instruction sets differ by 6e-8; AdamW's division makes rounding noise grow with the rate.
TEST(Train, StoredLossesStay) {
  const ProgramFolder folder;
  ASSERT_EQ(folder.run(tiny_run({"steps=10", "learning_rate=1e-3", "z_loss_multiplier=1e-4"})).exit_code, 0);
  const std::vector<double> losses =
      series(read_records(folder.path() / "out/t/metrics.jsonl", "train"), "learning/loss");
  const std::vector<nlohmann::json> stored =
      read_records(std::string(BALLAST_SOURCE_DIR) + "/tests/golden/runs/tiny_losses.jsonl", "train");
  ASSERT_EQ(losses.size(), stored.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i] / stored[i].at("learning/loss").get<double>(), 1.0, 1e-6) << "step " << i;
  }
}

}  // namespace
}  // namespace ballast::testing
