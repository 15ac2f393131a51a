// SPDX-License-Identifier: Apache-2.0
// A sum where the caller expects a mean: AI-Hypercomputer/maxtext#3040.
#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

// Rows of which the last few positions count only, as in a file of prompts and short answers: each prompt token is a
// document of its own and has no target.
TEST(MaxText3040, AccumulationKeepsTheScaleOfTheLossAndTheNumberOfSteps) {
  constexpr int kRows = 4, kLength = 32, kSteps = 3;
  Ids tokens, segments;
  for (int row = 0; row < kSteps * kRows; ++row) {
    const int answer = 3 + row % kRows;
    const Ids ids = some_ids(kLength + 1, row);
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    for (int t = 0; t <= kLength; ++t) segments.push_back(std::min(t, kLength - answer) + 1);
  }
  const auto train = [&](const Words& cut) {
    const ProgramFolder folder;
    write_recorded(folder.path() / "rows.safetensors", kRows, kLength, tokens, segments);
    const Words data = {"dataset_type=recorded", "recorded_batches_path=rows.safetensors", "steps=3"};
    return records_of(folder, tiny_run(joined(data, cut)));
  };
  const auto whole = train({"per_device_batch_size=4"});
  const auto cut = train({"per_device_batch_size=1", "gradient_accumulation_steps=4"});
  ASSERT_EQ(whole.size(), 3U);
  ASSERT_EQ(cut.size(), 3U);
  for (size_t step = 0; step < 3; ++step) {
    EXPECT_EQ(cut[step].at("step"), step);
    EXPECT_EQ(cut[step].at("learning/total_weights"), 3 + 4 + 5 + 6);
  }
  // A token of a fresh model costs about ln 128 = 4.85 nats; a sum of 18 would be 87.
  EXPECT_NEAR(whole[0].at("learning/loss").get<double>(), 4.85, 1.5);
  expect_near(cut, whole, "learning/loss", 2e-6);
  expect_near(cut, whole, "learning/raw_grad_norm", 2e-6);
  EXPECT_EQ(series(cut, "learning/current_learning_rate"), series(whole, "learning/current_learning_rate"));
}

}  // namespace
}  // namespace ballast::testing
