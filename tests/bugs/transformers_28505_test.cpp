// SPDX-License-Identifier: Apache-2.0
// Padding counted as traffic of experts: huggingface/transformers#28505, NVIDIA/Megatron-LM#1984 and #2121,
// pytorch/torchtitan#4594.
#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

/// One step on two rows of eight tokens, followed by `padding` positions of padding.
nlohmann::json step_with_padding(int64_t padding, const Words& more) {
  const ProgramFolder folder;
  Ids tokens, segments;
  for (int row = 0; row < 2; ++row) {
    const Ids ids = some_ids(9, row);
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    segments.insert(segments.end(), ids.size(), 1);
    tokens.insert(tokens.end(), static_cast<size_t>(padding), 0);
    segments.insert(segments.end(), static_cast<size_t>(padding), 0);
  }
  write_recorded(folder.path() / "steps.safetensors", 2, 8 + padding, tokens, segments);
  const Words words = golden_llama_run(
      "train",
      joined({"dataset_type=recorded", "recorded_batches_path=steps.safetensors", "per_device_batch_size=2",
              "max_target_length=" + std::to_string(8 + padding), "load_balance_loss_weight=1"},
             more),
      kGoldenQwen3Moe);
  return records_of(folder, words).at(0);
}

TEST(Transformers28505, PaddingHasNoShareInTheBalance) {
  for (const Words& more : {Words{}, Words{"load_balance_loss_form=olmo", "load_balance_scope=batch"},
                            Words{"sparse_matmul=false", "capacity_factor=1"}}) {
    // With one position of padding all nine tokens are inputs; more of it changes nothing.
    const nlohmann::json close = step_with_padding(1, more), wide = step_with_padding(9, more);
    for (const char* tag : {"learning/moe_lb_loss", "learning/lm_loss", "learning/raw_grad_norm"}) {
      EXPECT_NEAR(wide.at(tag).get<double>() / close.at(tag).get<double>(), 1.0, 1e-5) << tag;
    }
    EXPECT_EQ(wide.at("learning/moe_load_variance_mean"), close.at("learning/moe_load_variance_mean"));
  }
}

}  // namespace
}  // namespace ballast::testing
