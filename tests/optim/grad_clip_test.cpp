// SPDX-License-Identifier: Apache-2.0
#include "optim/grad_clip.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace ballast {
namespace {

TEST(GradClip, ScalesANormOf13ToTheThreshold) {
  const std::vector<at::Tensor> grads = {at::tensor({3.f, 4.f}), at::Tensor(), at::tensor({12.f})};
  const double norm = global_norm(grads);
  EXPECT_EQ(norm, 13.0);
  const double factor = clip_factor(norm, 1.0);
  EXPECT_NEAR(3 * factor, 0.230769231, 1e-9);
  EXPECT_NEAR(4 * factor, 0.307692308, 1e-9);
  EXPECT_NEAR(12 * factor, 0.923076923, 1e-9);
}

TEST(GradClip, LeavesASmallNormAlone) {
  EXPECT_EQ(clip_factor(13, 20), 1.0);
  EXPECT_EQ(clip_factor(13, 13), 1.0);
}

TEST(GradClip, ThresholdZeroNeverClips) {
  EXPECT_EQ(clip_factor(1e30, 0), 1.0);
}

TEST(GradClip, NormOfNothingIsZero) {
  EXPECT_EQ(global_norm({}), 0.0);
  const std::vector<at::Tensor> empty = {at::Tensor(), at::empty({0, 3})};
  EXPECT_EQ(global_norm(empty), 0.0);
}

TEST(GradClip, SquaresBeyondFloatRangeStayFinite) {
  const std::vector<at::Tensor> grads = {at::tensor({3e30f, 4e30f})};
  EXPECT_NEAR(global_norm(grads) / 5e30, 1.0, 1e-6);
}

TEST(GradClip, ShowsValuesThatAreNotFinite) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    at::Tensor grad = at::zeros({1000});
    grad[777] = bad;
    EXPECT_FALSE(std::isfinite(global_norm(std::vector<at::Tensor>{grad})));
  }
}

TEST(GradClip, AgreesWithALongSumInDouble) {
  at::Generator generator = at::detail::createCPUGenerator(7);
  std::vector<at::Tensor> grads;
  double expected = 0;
  for (const int64_t size : {1, 31, 32, 33, 65535, 65536, 65537, 200003}) {
    grads.push_back(at::randn({size}, generator));
    const float* values = grads.back().const_data_ptr<float>();
    for (int64_t i = 0; i < size; ++i) expected += static_cast<double>(values[i]) * values[i];
  }
  EXPECT_NEAR(squared_norm(grads) / expected, 1.0, 1e-12);
}

TEST(GradClip, TakesOtherTypesAndLayouts) {
  const at::Tensor grad = at::tensor({1.f, 2.f, 3.f, 4.f}).view({2, 2});
  EXPECT_NEAR(squared_norm(std::vector<at::Tensor>{grad.t(), grad.to(at::kBFloat16)}), 60.0, 1e-12);
}

TEST(GradClip, BitsDoNotDependOnTheThreadCount) {
  at::Generator generator = at::detail::createCPUGenerator(11);
  const std::vector<at::Tensor> grads = {at::randn({1000, 1001}, generator)};
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const double alone = squared_norm(grads);
  at::set_num_threads(3);
  const double together = squared_norm(grads);
  at::set_num_threads(threads);
  EXPECT_EQ(std::memcmp(&alone, &together, sizeof alone), 0);
}

}  // namespace
}  // namespace ballast
