// SPDX-License-Identifier: Apache-2.0
// z-loss averaged over rows instead of tokens: allenai/OLMo#634.
#include <cmath>

#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

constexpr int kLength = 16;

// Rows of 3, 15, 7 and 11 targets and padding behind them.
TEST(Olmo634, IsTheMeanOverTargetsOfTheSquaredLogSumExp) {
  const std::vector<int> lengths = {4, 16, 8, 12};
  Ids inputs, segments;                    // of the probe: 16 positions a row
  Ids recorded_tokens, recorded_segments;  // of the run: 17
  for (size_t row = 0; row < lengths.size(); ++row) {
    const Ids ids = some_ids(kLength + 1, static_cast<int>(row));
    for (int t = 0; t <= kLength; ++t) {
      const int segment = t < lengths[row] ? 1 : 0;
      recorded_tokens.push_back(ids[static_cast<size_t>(t)]);
      recorded_segments.push_back(segment);
      if (t == kLength) continue;
      inputs.push_back(ids[static_cast<size_t>(t)]);
      segments.push_back(segment);
    }
  }
  const ProgramFolder folder;
  const std::vector<float> logits = probe(folder, 4, inputs, segments).at("logits");
  constexpr size_t kVocab = 128;
  double squares = 0, count = 0;
  for (size_t row = 0; row < 4; ++row) {
    for (int t = 0; t + 1 < lengths[row]; ++t) {
      const float* x = logits.data() + (row * kLength + static_cast<size_t>(t)) * kVocab;
      double sum = 0;
      for (size_t v = 0; v < kVocab; ++v) sum += std::exp(static_cast<double>(x[v]));
      squares += std::log(sum) * std::log(sum);
      ++count;
    }
  }
  ASSERT_EQ(count, 3 + 15 + 7 + 11);
  for (const Words& cut :
       {Words{"per_device_batch_size=4"}, {"per_device_batch_size=1", "gradient_accumulation_steps=4"}}) {
    const ProgramFolder run;
    write_recorded(run.path() / "rows.safetensors", 4, kLength, recorded_tokens, recorded_segments);
    const Words keys = {"dataset_type=recorded", "recorded_batches_path=rows.safetensors", "max_target_length=16",
                        "z_loss_multiplier=1e-4"};
    const auto records = records_of(run, golden_llama_run("train", joined(keys, cut)));
    ASSERT_EQ(records.size(), 1U);
    const double z_loss = records[0].at("learning/z_loss"), lm_loss = records[0].at("learning/lm_loss");
    EXPECT_NEAR(z_loss / (1e-4 * squares / count), 1.0, 1e-6);
    EXPECT_NEAR(records[0].at("learning/loss").get<double>(), lm_loss + z_loss, 1e-6 * lm_loss);
  }
}

}  // namespace
}  // namespace ballast::testing
