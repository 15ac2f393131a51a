// SPDX-License-Identifier: Apache-2.0
#include "metrics/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "metrics/expert_load.h"
#include "metrics/train_record.h"

namespace ballast {
namespace {

/// Records as training writes them: a falling loss, a clipped norm now and then.
RunHistory history_of(const std::string& run_name, int64_t num_steps) {
  RunHistory history;
  history.run_name = run_name;
  for (int64_t step = 0; step < num_steps; ++step) {
    StepNumbers numbers;
    numbers.step = step;
    numbers.target_weight_sum = 1000;
    numbers.ce_sum = 1000 * (2 + 3 / (1 + 0.01 * static_cast<double>(step)) + 0.1 * std::sin(1.7 * step));
    numbers.z_sum = 0.5;
    numbers.loss = (numbers.ce_sum + numbers.z_sum) / 1000;
    numbers.raw_grad_norm = 0.9 + 0.3 * std::sin(0.9 * static_cast<double>(step));
    numbers.grad_norm = std::min(1.0, *numbers.raw_grad_norm);
    numbers.learning_rate = 1e-3;
    numbers.step_seconds = 0.5;
    numbers.tokens = 2048;
    history.last_train = train_record(numbers);
    for (const auto& [tag, value] : history.last_train.scalars) history.train[tag].push_back({step, value});
  }
  return history;
}

void add_eval(RunHistory& history, int64_t step, double loss) {
  history.evals.push_back(
      {"eval", step, {{"eval/avg_loss", loss}, {"eval/avg_perplexity", std::exp(loss)}, {"eval/total_weights", 5000}}});
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Report, ShowsHeadChartsEvaluationsAndTheLastStep) {
  RunHistory history = history_of("first", 12);
  add_eval(history, 0, 5.25);
  add_eval(history, 6, 4.125);
  add_eval(history, 9, 4.5);
  const std::string page = report_page(history, "2026-01-02 03:04 UTC");
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  EXPECT_TRUE(has(page, "<h1>first</h1>"));
  EXPECT_TRUE(has(page, "2026-01-02 03:04 UTC"));
  for (const char* title : {"Loss", "Perplexity", "Learning rate", "Gradient norm", "Speed", "z-loss"}) {
    EXPECT_TRUE(has(page, "<figcaption><b>" + std::string(title) + "</b>")) << title;
  }
  EXPECT_FALSE(has(page, "Expert balance loss")) << "zero throughout";
  EXPECT_TRUE(has(page, "<span>Steps</span><b>12</b><small>0 to 11</small>"));
  EXPECT_TRUE(has(page, "<span>Best evaluation</span><b>4.125</b><small>perplexity 61.868, step 6</small>"));
  EXPECT_TRUE(has(page, "<span>Targets</span><b>12k</b>"));
  EXPECT_TRUE(has(page, "<span>Tokens/s</span><b>4.1k</b>")) << "2048 / 0.5";
  EXPECT_TRUE(has(page, "<span>Time</span><b>6 s</b>"));
  EXPECT_TRUE(has(page, "<tr class=best><td>6 (best)</td><td>4.125</td><td>61.8678</td><td>5000</td></tr>"));
  EXPECT_LT(page.find("<td>9</td>"), page.find("<td>6 (best)</td>")) << "newest first";
  EXPECT_TRUE(has(page, "<td>learning/total_weights</td><td>1000.0</td>"));
}

TEST(Report, EscapesTheRunNameAndEveryTag) {
  RunHistory history = history_of("<b>\"x & </title><script>", 3);
  history.last_train.scalars.emplace_back("<i>tag</i>", 1.0);
  history.notes = {"<u>note</u>"};
  const std::string page = report_page(history, "<s>");
  EXPECT_TRUE(has(page, "<h1>&lt;b&gt;&quot;x &amp; &lt;/title&gt;&lt;script&gt;</h1>"));
  EXPECT_TRUE(has(page, "&lt;i&gt;tag&lt;/i&gt;"));
  for (const char* tag : {"<b>\"x", "</title><script>", "<i>tag", "<u>", "<s>"}) EXPECT_FALSE(has(page, tag)) << tag;
}

TEST(Report, LoadsNothing) {
  const std::string page = report_page(history_of("r", 3), {});
  for (const char* part : {"http:", "https:", "//www", "src=", "href=", "url(", "@import", "fetch("}) {
    EXPECT_FALSE(has(page, part)) << part;
  }
}

TEST(Report, ShowsExpertLoadWhereThereIsSome) {
  RunHistory history = history_of("experts", 4);
  EXPECT_FALSE(has(report_page(history, {}), "ballast balance"));
  for (int64_t step = 0; step < 4; ++step) {
    for (const auto& [tag, value] : load_tags({{0, false, {1, 2, 3, 6 + step}, {}}})) {
      history.train[tag].push_back({step, value});
    }
    history.train["learning/router_z_loss"].push_back({step, 0.5});
  }
  const std::string page = report_page(history, {});
  for (const char* title : {"Variance of expert load", "Largest expert load over the mean", "Router z-loss"}) {
    EXPECT_TRUE(has(page, "<figcaption><b>" + std::string(title) + "</b>")) << title;
  }
  EXPECT_FALSE(has(page, "Experts without load")) << "zero throughout";
  EXPECT_TRUE(has(page, "<b>ballast balance</b> with the folder of this run writes expert_load.html"));
}

TEST(Report, NamesEqualLinesOnce) {
  RunHistory history = history_of("r", 3);
  history.train["learning/lm_loss"] = history.train["learning/loss"];
  EXPECT_TRUE(has(report_page(history, {}), "<span>loss = lm_loss</span>"));
  history.train["learning/lm_loss"][1].value *= 1 + 1e-7;  // float32 rounding
  EXPECT_TRUE(has(report_page(history, {}), "<span>loss = lm_loss</span>"));
  history.train["learning/lm_loss"][1].value *= 1 + 1e-5;
  EXPECT_FALSE(has(report_page(history, {}), "<span>loss = lm_loss</span>"));
}

TEST(Report, StaysBelowAMegabyteAndKeepsASpike) {
  RunHistory history = history_of("long", 30000);
  history.train["learning/lm_loss"][17123].value = 98.765;
  for (const char* tag : {"learning/moe_lb_loss", "learning/mtp_loss", "learning/indexer_loss"}) {
    for (SeriesPoint& point : history.train[tag]) point.value = 1 / (3.0 + static_cast<double>(point.step));
  }
  for (int64_t step = 0; step < 30000; step += 10) add_eval(history, step, 3 + 1 / (7.0 + static_cast<double>(step)));
  const std::string page = report_page(history, {});
  EXPECT_LT(page.size(), 1000000U);
  EXPECT_TRUE(has(page, ",98.765,"));
  EXPECT_TRUE(has(page, "The newest 200 of 3000"));
}

TEST(Report, MarksStepsThatAreNotFiniteAndCountsSkippedOnes) {
  RunHistory history = history_of("r", 5);
  for (const char* tag : {"learning/loss", "learning/lm_loss"}) {
    history.train[tag][3].value = std::numeric_limits<double>::quiet_NaN();
  }
  history.train["optim/step_skipped"] = {{3, 1.0}};
  const std::string page = report_page(history, {});
  EXPECT_TRUE(has(page, "not finite, the first at step 3"));
  EXPECT_TRUE(has(page, "<path class=\"dots bad\""));
  EXPECT_TRUE(has(page, "<small>0 to 4, 1 skipped</small>"));
}

TEST(Report, StandsForARunWithEvaluationsOnlyAndForASingleStep) {
  RunHistory evals;
  evals.run_name = "e";
  add_eval(evals, 0, 3.5);
  const std::string page = report_page(evals, {});
  EXPECT_TRUE(has(page, "<td>0 (best)</td><td>3.5</td>"));
  EXPECT_TRUE(has(page, "<figcaption><b>Loss</b>"));
  EXPECT_FALSE(has(page, "the last one"));
  EXPECT_TRUE(has(report_page(history_of("one", 1), {}), "<span>Steps</span><b>1</b><small>0 to 0</small>"));
}

}  // namespace
}  // namespace ballast
