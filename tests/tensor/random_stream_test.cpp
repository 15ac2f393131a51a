// SPDX-License-Identifier: Apache-2.0
#include "tensor/random_stream.h"

#include <gtest/gtest.h>

namespace ballast {
namespace {

TEST(StreamKey, DependsOnEveryPart) {
  const uint64_t key = stream_key(1, "dropout", {2, 3});
  EXPECT_EQ(stream_key(1, "dropout", {2, 3}), key);
  EXPECT_NE(stream_key(2, "dropout", {2, 3}), key);
  EXPECT_NE(stream_key(1, "dropouT", {2, 3}), key);
  EXPECT_NE(stream_key(1, "dropout", {3, 2}), key);
  EXPECT_NE(stream_key(1, "dropout", {2}), key);
}

TEST(CpuStream, IsTheTorchGeneratorOfThatSeed) {
  // torch.manual_seed(42); torch.rand(1) gives 0.8823 in Python.
  at::Generator generator = cpu_stream(42);
  EXPECT_NEAR(at::rand({1}, generator).item<float>(), 0.88226926f, 1e-7f);
}

}  // namespace
}  // namespace ballast
