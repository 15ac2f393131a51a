// SPDX-License-Identifier: Apache-2.0
// Experts that no token goes to: deepspeedai/DeepSpeed#5066 and #4966.
#include "bugs/bug_run.h"

#include <cmath>

namespace ballast::testing {
namespace {

// Four tokens a step on sixteen experts: most have no gradient, and nothing becomes infinite.
TEST(DeepSpeed5066, IdleExpertsStayFinite) {
  const ProgramFolder folder;
  const auto records = records_of(folder, tiny_experts({"num_experts=16", "max_target_length=4",
                                                        "per_device_batch_size=1", "load_balance_loss_weight=0.1"}));
  ASSERT_EQ(records.size(), 6U);
  for (const nlohmann::json& record : records) {
    EXPECT_GE(record.at("learning/moe_dead_experts"), 2 * (16 - 8));
    EXPECT_TRUE(std::isfinite(record.at("learning/param_norm").get<double>()));
    EXPECT_TRUE(std::isfinite(record.at("learning/raw_grad_norm").get<double>()));
  }
}

}  // namespace
}  // namespace ballast::testing
