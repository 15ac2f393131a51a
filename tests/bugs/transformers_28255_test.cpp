// SPDX-License-Identifier: Apache-2.0
// Router outputs of all layers joined before the balance loss, so that layers cancel: huggingface/transformers#28255.
// And choices counted after padding to capacity, so that every expert looks full: NVIDIA/Megatron-LM#1617.
#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

double balance_of_one_sided_routers(const Words& more) {
  const ProgramFolder folder;
  const std::string model = one_sided_gpt_oss(folder);
  const Words words = golden_llama_run("train",
                                       joined({"dataset_type=synthetic", "per_device_batch_size=2",
                                               "max_target_length=32", "load_balance_loss_weight=1"},
                                              more),
                                       model);
  return records_of(folder, words).at(0).at("learning/moe_lb_loss").get<double>();
}

// Each layer has two idle experts of four: 4 where balance is 2. Joined, the layers would look balanced.
TEST(Transformers28255, LayersDoNotCancel) {
  EXPECT_NEAR(balance_of_one_sided_routers({}), 4.0, 1e-5);
  EXPECT_NEAR(balance_of_one_sided_routers({"moe_aux_loss_reduction=sum"}), 16.0, 1e-4);
}

TEST(MegatronLm1617, CapacityDoesNotHideTheImbalance) {
  EXPECT_NEAR(balance_of_one_sided_routers({"sparse_matmul=false", "capacity_factor=1"}), 4.0, 1e-5);
}

}  // namespace
}  // namespace ballast::testing
