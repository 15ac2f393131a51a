// SPDX-License-Identifier: Apache-2.0
// A softmax over masked keys only: pytorch/pytorch#41508, pytorch/pytorch#131060.
#include <cmath>

#include "bugs/bug_run.h"

namespace ballast::testing {
namespace {

TEST(PyTorch41508, ARowOfPaddingLeavesEveryGradientAsItIs) {
  const Ids row = some_ids(24);
  Ids segments(24, 1);
  for (size_t t = 10; t < 24; ++t) segments[t] = t < 20 ? 2 : 0;  // two documents and four padded positions
  Ids both_rows = row, both_segments = segments;
  both_rows.insert(both_rows.end(), 24, 7);
  both_segments.insert(both_segments.end(), 24, 0);
  const ProgramFolder folder;
  const auto alone = probe(folder, 1, row, segments, true);
  const auto beside = probe(folder, 2, both_rows, both_segments, true);
  int num_gradients = 0;
  for (const auto& [name, values] : beside) {
    for (const float value : values) ASSERT_TRUE(std::isfinite(value)) << name;
    if (!name.starts_with("grad.")) continue;
    ++num_gradients;
    const std::vector<float>& expected = alone.at(name);
    ASSERT_EQ(values.size(), expected.size()) << name;
    float largest = 0;
    for (const float value : expected) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], 1e-6 * largest) << name;
  }
  EXPECT_EQ(num_gradients, 2 + 1 + 3 * 9);  // embedding, head, last norm; nine tensors a layer
  EXPECT_NEAR(beside.at("loss")[0], alone.at("loss")[0], 1e-6 * alone.at("loss")[0]);
}

}  // namespace
}  // namespace ballast::testing
