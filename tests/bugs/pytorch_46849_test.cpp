// SPDX-License-Identifier: Apache-2.0
// One NaN gradient kills every weight: pytorch/pytorch#46849, facebookresearch/habitat-lab#2226.
#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

const Words kSynthetic = {"dataset_type=synthetic", "max_target_length=16", "per_device_batch_size=2", "steps=3"};
const std::string kScale = "model.layers.1.input_layernorm.weight";
const std::string kMatrix = "model.layers.2.mlp.down_proj.weight";

std::string with_huge_scale(const ProgramFolder& folder) {
  return changed_golden(folder, kGoldenLlama, [](const std::string& name, std::vector<float>& values) {
    if (name == kScale) values.assign(values.size(), 3e38F);
  });
}

TEST(PyTorch46849, ALossThatIsNotFiniteEndsTheRunBeforeTheUpdateWithStepAndParameter) {
  const ProgramFolder folder;
  const ProgramResult result = folder.run(golden_llama_run("train", kSynthetic, with_huge_scale(folder)));
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_NE(result.err.find("error: train.step 0: loss is not finite; the weights were not updated; got NaN, first in "
                            "model.embed_tokens.weight (gradient)"),
            std::string::npos)
      << result.err;
  EXPECT_EQ(read_records(folder.path() / "out/t/metrics.jsonl", "train").size(), 1U);
}

TEST(PyTorch46849, AWeightThatIsNotFiniteIsNamedBeforeTheGradientsItSpoils) {
  const ProgramFolder folder;
  const std::string model =
      changed_golden(folder, kGoldenLlama, [](const std::string& name, std::vector<float>& values) {
        if (name == kMatrix) values[5] = std::numeric_limits<float>::quiet_NaN();
      });
  const ProgramResult result = folder.run(golden_llama_run("train", kSynthetic, model));
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_NE(result.err.find("first in " + kMatrix + " (value)"), std::string::npos) << result.err;
}

TEST(PyTorch46849, ASkippedStepLeavesTheWeightsAndIsTold) {
  const ProgramFolder folder;
  const Words keys = joined(kSynthetic, {"abort_on_nan_loss=false", "abort_on_inf_loss=false"});
  const ProgramResult result = folder.run(golden_llama_run("train", keys, with_huge_scale(folder)));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto records = read_records(folder.path() / "out/t/metrics.jsonl", "train");
  ASSERT_EQ(records.size(), 3U);
  for (const nlohmann::json& record : records) {
    EXPECT_EQ(record.at("optim/step_skipped"), 1.0);
    EXPECT_EQ(record.at("learning/param_norm"), records[0].at("learning/param_norm"));
  }
  EXPECT_NE(result.err.find("train.step 2: loss is not finite; the weights were not updated; got NaN, first in "),
            std::string::npos)
      << result.err;
}

}  // namespace
}  // namespace ballast::testing
