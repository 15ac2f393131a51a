// SPDX-License-Identifier: Apache-2.0
// Equal scores must choose the same experts everywhere: vllm-project/vllm#55514.
#include "bugs/bug_run.h"
#include "support/scoped_variable.h"

namespace ballast::testing {
namespace {

TEST(Vllm55514, TiesGoToTheLowerExpertWithAnyNumberOfThreads) {
  for (const char* threads : {"1", "2"}) {
    const ScopedVariable variable("OMP_NUM_THREADS", threads);
    const ProgramFolder folder;
    const std::string model =
        changed_golden(folder, kGoldenQwen3Moe, [](const std::string& name, std::vector<float>& values) {
          if (name.ends_with("mlp.gate.weight")) std::fill(values.begin(), values.end(), 0.0F);
        });
    records_of(folder,
               golden_llama_run("train", {"dataset_type=synthetic", "per_device_batch_size=2", "max_target_length=64"},
                                model));
    const auto loads = loads_of(folder);
    ASSERT_EQ(loads.size(), 3U);
    for (const nlohmann::json& load : loads) {
      EXPECT_EQ(load.at("counts"), (std::vector<int64_t>{128, 128, 0, 0, 0, 0, 0, 0})) << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace ballast::testing
