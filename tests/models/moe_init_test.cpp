// SPDX-License-Identifier: Apache-2.0
// Deviations of the initial weights of experts: 16 experts, D 64, 32 wide.
#include <gtest/gtest.h>

#include "support/tiny_model.h"

namespace ballast {
namespace {

/// Standard deviation of the weights whose name holds `part`, in layer 0.
double initial_deviation(bool has_maxtext_init, const std::string& part) {
  DecoderSpec spec = testing::tiny_moe_spec();
  spec.emb_dim = 64;
  for (LayerSpec& layer : spec.layers) {
    auto& experts = std::get<MoeFfnSpec>(layer.ffn);
    experts.router.num_experts = 16;
    experts.mlp_dim = 32;
  }
  spec.moe.has_maxtext_init = has_maxtext_init;
  const auto decoder = testing::tiny_decoder(spec);
  for (const Parameter& parameter : decoder->units()[1]->parameters()) {
    if (parameter.spec.name.find(part) != std::string::npos) return parameter.master.detach().std().item<double>();
  }
  return 0;
}

// 32768 values: their deviation is known to 0.4 %.
TEST(ExpertInit, FanInDividesByTheInputsOfAnExpert) {
  for (const auto& [part, deviation] :
       {std::pair("gate_proj", 0.125), {"up_proj", 0.125}, {"down_proj", 0.1767767}}) {  // 1/sqrt(64), 1/sqrt(32)
    EXPECT_NEAR(initial_deviation(false, part) / deviation, 1, 0.02) << part;
  }
}

// MaxText takes the expert axis for inputs and what is left for outputs: 1/sqrt(16 * 32) and 1/sqrt(16 * 64).
TEST(ExpertInit, MaxTextDividesByExpertsTimesOutputs) {
  for (const auto& [part, deviation] :
       {std::pair("gate_proj", 0.0441942), {"up_proj", 0.0441942}, {"down_proj", 0.03125}}) {
    EXPECT_NEAR(initial_deviation(true, part) / deviation, 1, 0.02) << part;
  }
}

}  // namespace
}  // namespace ballast
