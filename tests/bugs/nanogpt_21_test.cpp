// SPDX-License-Identifier: Apache-2.0
// A tied head that counts, decays or is saved twice: karpathy/nanoGPT#21, pytorch/torchtitan#3764,
// NVIDIA-NeMo/Megatron-Bridge#919.
#include "bugs/bug_run.h"
#include "config/resolve.h"
#include "spec/decoder_spec.h"
#include "support/tiny_model.h"
#include "train/step.h"

namespace ballast::testing {
namespace {

TEST(NanoGpt21, ATiedHeadIsOneParameterWithOneOptimizerEntry) {
  const auto decoder = tiny_decoder(tiny_spec(/*is_head_tied=*/true)), apart = tiny_decoder(tiny_spec());
  const auto sizes = [](const Decoder& model) {
    std::map<std::string, int64_t> numbers;
    for (const UnitPtr& unit : model.units()) {
      for (const Parameter& parameter : unit->parameters()) {
        EXPECT_TRUE(numbers.emplace(parameter.spec.name, parameter.master.numel()).second) << parameter.spec.name;
      }
    }
    return numbers;
  };
  std::map<std::string, int64_t> expected = sizes(*apart);
  ASSERT_EQ(expected.erase("lm_head.weight"), 1U);
  EXPECT_EQ(sizes(*decoder), expected);
  StepOptions options;
  options.schedule.learning_rate = 1e-3;
  options.schedule.schedule_steps = 10;
  TrainStep step(*decoder, single_rank_world(), options);
  StepNumbers numbers = step.accumulate(tiny_batch(2, 12), 1);
  step.update(numbers);
  ASSERT_EQ(step.optimizer().moments().size(), expected.size());
  for (const auto& [name, moments] : step.optimizer().moments()) EXPECT_EQ(expected.count(name), 1U) << name;
}

TEST(NanoGpt21, TheCountIsLowerByVocabularyTimesWidth) {
  const Words sizes = {"vocab_size=128", "base_emb_dim=32", "base_num_query_heads=2", "base_num_kv_heads=2",
                       "head_dim=16"};
  const auto count = [&](const char* tying) {
    return count_parameters(make_decoder_spec(config_from_pairs(joined(sizes, {tying}))));
  };
  EXPECT_EQ(count("logits_via_embedding=false") - count("logits_via_embedding=true"), 128 * 32);
}

// Golden Qwen3 is tied: its file holds no head, and its logits are those of transformers
// (tests/models/golden_test.cpp).
TEST(NanoGpt21, ATiedFolderHasNoHeadTensorAndTrains) {
  const std::string qwen = std::string(BALLAST_SOURCE_DIR) + "/tests/golden/qwen3";
  EXPECT_EQ(read_floats(qwen + "/model.safetensors").count("lm_head.weight"), 0U);
  const ProgramFolder folder;
  const auto gradients = probe(folder, 1, some_ids(16), Ids(16, 1), true, qwen);
  EXPECT_EQ(gradients.count("grad.model.embed_tokens.weight"), 1U);
  EXPECT_EQ(gradients.count("grad.lm_head.weight"), 0U);
  const Words keys = {"dataset_type=synthetic", "max_target_length=16",   "per_device_batch_size=1", "steps=3",
                      "learning_rate=1e-2",     "warmup_steps_fraction=0"};
  const auto losses = series(records_of(folder, golden_llama_run("train", keys, qwen)), "learning/loss");
  EXPECT_LT(losses.at(2), losses.at(0));
}

}  // namespace
}  // namespace ballast::testing
