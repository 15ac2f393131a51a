// SPDX-License-Identifier: Apache-2.0
// Experts on the bundled corpus: without balancing they collapse, with it they do not, at the same loss.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "support/program.h"

namespace ballast::testing {
namespace {

struct KjvRun {
  double lm_loss = 0;   ///< mean over the last ten steps
  double variance = 0;  ///< mean over layers and the last ten steps
  std::vector<double> balance_losses;
};

double mean_of_last_ten(const std::vector<double>& values) {
  return std::accumulate(values.end() - 10, values.end(), 0.0) / 10;
}

/// A hundred steps of two layers of 16 experts, two a token.
KjvRun run_on_corpus(const ProgramFolder& folder, const std::string& name, const std::vector<std::string>& more) {
  const std::string root = BALLAST_SOURCE_DIR;
  std::vector<std::string> words = {"train",
                                    root + "/configs/demo.yml",
                                    "base_output_directory=out",
                                    "run_name=" + name,
                                    "hf_path=" + root + "/examples/data/kjv",
                                    "tokenizer_path=" + root + "/examples/data/kjv/tokenizer.json",
                                    "enable_checkpointing=false",
                                    "eval_interval=-1",
                                    "steps=100",
                                    "base_num_decoder_layers=2",
                                    "first_num_dense_layers=0",
                                    "base_emb_dim=96",
                                    "base_num_query_heads=4",
                                    "base_moe_mlp_dim=64",
                                    "shared_experts=0",
                                    "per_device_batch_size=4",
                                    "max_target_length=128"};
  words.insert(words.end(), more.begin(), more.end());
  const ProgramResult result = folder.run(words);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto records = read_records(folder.path() / "out" / name / "metrics.jsonl", "train");
  KjvRun run;
  run.balance_losses = series(records, "learning/moe_lb_loss");
  run.lm_loss = mean_of_last_ten(series(records, "learning/lm_loss"));
  run.variance = mean_of_last_ten(series(records, "learning/moe_load_variance_mean"));
  return run;
}

TEST(Balance, FallsToAThirdAtNoCostInLoss) {
  const ProgramFolder folder;
  const KjvRun without = run_on_corpus(folder, "without", {"load_balance_loss_weight=0"});
  for (const auto& [name, keys] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"loss", {"load_balance_loss_weight=0.01"}},
           {"bias",
            {"load_balance_loss_weight=0", "routed_score_func=sigmoid", "routed_bias=true",
             "routed_bias_update_rate=0.01"}}}) {
    const KjvRun with = run_on_corpus(folder, name, keys);
    EXPECT_LE(with.variance, without.variance / 3) << name;
    EXPECT_LE(with.lm_loss, 1.01 * without.lm_loss) << name;
  }
  const ProgramResult table = folder.run({"balance", "out/without", "out/loss"});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_NE(table.out.find("| TOTAL       | 2 Top-K      |"), std::string::npos) << table.out;
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "out/without/expert_load.html"));
}

TEST(Balance, LossFallsWhereFullExpertsDropTokens) {
  const ProgramFolder folder;
  const KjvRun run = run_on_corpus(folder, "capacity", {"capacity_factor=1", "sparse_matmul=False"});
  const auto& losses = run.balance_losses;
  EXPECT_LT(mean_of_last_ten(losses), 0.9 * *std::max_element(losses.begin(), losses.begin() + 50));
  EXPECT_GE(losses.back(), 0.01 * 2 - 1e-6) << "two a token is the value at balance";
}

}  // namespace
}  // namespace ballast::testing
