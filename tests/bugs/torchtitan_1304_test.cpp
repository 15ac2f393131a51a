// SPDX-License-Identifier: Apache-2.0
// The selection bias and what must not move it: once a step however it is cut (pytorch/torchtitan#1304), not by blocks
// that run again (pytorch/torchtitan#1593), not rounded to bfloat16 (NVIDIA/Megatron-LM#1482), not by evaluation
// (PrimeIntellect-ai/prime-rl#2953).
#include "bugs/bug_run.h"

#include <cmath>

namespace ballast::testing {
namespace {

constexpr double kRate = 0.001;

/// Biases of both layers after the run, one after the other.
std::vector<double> biases_after(const Words& more) {
  const ProgramFolder folder;
  records_of(
      folder,
      tiny_experts(joined(
          {"routed_score_func=sigmoid", "routed_bias=true", "routed_bias_update_rate=0.001", "eval_steps=1"}, more)));
  std::vector<double> biases;
  const auto loads = loads_of(folder);
  for (size_t i = loads.size() - 2; i < loads.size(); ++i) {
    const auto bias = loads[i].at("bias").get<std::vector<double>>();
    biases.insert(biases.end(), bias.begin(), bias.end());
  }
  return biases;
}

void expect_multiples(const std::vector<double>& biases, double most) {
  double largest = 0;
  for (const double bias : biases) {
    EXPECT_NEAR(bias / kRate, std::round(bias / kRate), 1e-3) << bias;
    largest = std::max(largest, std::abs(bias));
  }
  EXPECT_GT(largest, 0.5 * kRate) << "it moves";
  EXPECT_LT(largest, most + 1e-6);
}

TEST(TorchTitan1304, TheBiasMovesOnceAStep) {
  expect_multiples(biases_after({"steps=1", "gradient_accumulation_steps=4"}), kRate);
}

TEST(TorchTitan1593, BlocksThatRunAgainDoNotCountAgain) {
  EXPECT_EQ(biases_after({"remat_policy=full"}), biases_after({"remat_policy=none"}));
}

TEST(MegatronLm1482, TheBiasIsFloat32) {
  expect_multiples(biases_after({"dtype=bfloat16", "weight_dtype=bfloat16", "steps=50"}), 50 * kRate);
}

TEST(PrimeRl2953, EvaluationDoesNotMoveTheBias) {
  EXPECT_EQ(biases_after({"steps=5", "eval_interval=1"}), biases_after({"steps=5"}));
}

}  // namespace
}  // namespace ballast::testing
