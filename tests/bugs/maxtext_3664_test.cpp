// SPDX-License-Identifier: Apache-2.0
// Balance losses fetched by a fixed path and missing in some layouts of layers: AI-Hypercomputer/maxtext#3664.
#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

size_t num_load_tags(const nlohmann::json& record) {
  size_t count = 0;
  for (const auto& [tag, value] : record.items()) count += tag.starts_with("learning/moe_load_variance/layer_");
  return count;
}

TEST(MaxText3664, EveryLayoutOfLayersGivesItsTerms) {
  const auto first = [](const Words& more) {
    const ProgramFolder folder;
    return records_of(folder, tiny_experts(joined({"load_balance_loss_weight=1", "steps=1"}, more))).at(0);
  };
  const nlohmann::json scanned = first({"scan_layers=true"}), unrolled = first({"scan_layers=false"});
  EXPECT_GE(scanned.at("learning/moe_lb_loss"), 2.0 - 1e-5);
  EXPECT_EQ(scanned.at("learning/moe_lb_loss"), unrolled.at("learning/moe_lb_loss"));
  EXPECT_EQ(num_load_tags(scanned), 2U);
  const nlohmann::json mixed = first({"first_num_dense_layers=1"});
  EXPECT_GE(mixed.at("learning/moe_lb_loss"), 2.0 - 1e-5) << "the dense layer does not dilute it";
  EXPECT_EQ(num_load_tags(mixed), 1U);
}

}  // namespace
}  // namespace ballast::testing
