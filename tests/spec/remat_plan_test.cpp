// SPDX-License-Identifier: Apache-2.0
// What a policy keeps of experts. MaxText gives their tensors two names each: mlpwi_0 and moe_mlpwi_0, and so on.
#include <gtest/gtest.h>

#include "config/resolve.h"
#include "spec/remat.h"

namespace ballast {
namespace {

using enum NamedTensor;

NamedTensors kept_by(const std::vector<std::string>& pairs) {
  return make_remat_plan(config_from_pairs(pairs)).kept;
}

TEST(RematPlan, NamesExpertsByThemselves) {
  EXPECT_EQ(kept_by({"remat_policy=custom", "moe_mlpwi_0=device"}), NamedTensors{kMoeMlpwi0});
  EXPECT_EQ(kept_by({"remat_policy=custom", "moe_mlpwi_1=offload"}), NamedTensors{kMoeMlpwi1});
  EXPECT_EQ(kept_by({"remat_policy=custom", "moe_mlpwo=device"}), NamedTensors{kMoeMlpwo});
}

TEST(RematPlan, NamesExpertsAsFeedForwardLayers) {
  EXPECT_EQ(kept_by({"remat_policy=custom", "mlpwi_0=device"}), (NamedTensors{kMlpwi0, kMoeMlpwi0}));
  EXPECT_EQ(kept_by({"remat_policy=custom", "mlpwi_1=device"}), (NamedTensors{kMlpwi1, kMoeMlpwi1}));
  EXPECT_EQ(kept_by({"remat_policy=custom", "mlpwo=device"}), (NamedTensors{kMlpwo, kMoeMlpwo}));
  EXPECT_EQ(kept_by({"remat_policy=custom", "mlpwi=device"}),
            (NamedTensors{kMlpwi, kMlpwi0, kMlpwi1, kMoeMlpwi0, kMoeMlpwi1}));
}

TEST(RematPlan, PoliciesThatNameFeedForwardLayersKeepExperts) {
  const NamedTensors attention = {kQueryProj, kKeyProj, kValueProj, kKeyValueProj, kOutProj};
  NamedTensors minimal = attention;
  minimal.insert({kQueryWaProj, kKvWaProj, kMlpwi, kMlpwi0, kMlpwi1, kMlpwo, kMoeMlpwi0, kMoeMlpwi1, kMoeMlpwo});
  EXPECT_EQ(kept_by({"remat_policy=minimal"}), minimal);
  NamedTensors down = attention;
  down.insert({kMlpwo, kMoeMlpwo});
  EXPECT_EQ(kept_by({"remat_policy=save_dot_except_mlpwi"}), down);
  EXPECT_EQ(kept_by({"remat_policy=save_dot_except_mlp"}), attention);
}

}  // namespace
}  // namespace ballast
