// SPDX-License-Identifier: Apache-2.0
#include "ops/latent_heads.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "errors/errors.h"
#include "ops/gradcheck.h"

namespace ballast {
namespace {

TEST(LatentHeads, PutsTheSharedPartBehindEachHeadsOwn) {
  const at::Tensor kv = at::arange(12, at::kDouble).view({1, 1, 2, 6}), shared = at::tensor({-1.0, -2.0}, at::kDouble);
  const auto [k, v] = latent_heads(kv, shared.view({1, 1, 1, 2}), 4);
  EXPECT_TRUE(at::equal(k.flatten(), at::tensor({0., 1., 2., 3., -1., -2., 6., 7., 8., 9., -1., -2.}, at::kDouble)));
  EXPECT_TRUE(at::equal(v.flatten(), at::tensor({4., 5., 10., 11.}, at::kDouble)));
  EXPECT_EQ(v.const_data_ptr(), kv.narrow(3, 4, 2).const_data_ptr()) << "values are not copied";
}

TEST(LatentHeads, GradientsMatchFiniteDifferences) {
  const std::vector<at::Tensor> inputs = {normal({2, 3, 4, 7}, 1), normal({2, 3, 1, 2}, 2)};
  const auto both = [](const std::vector<at::Tensor>& in) {
    const auto [k, v] = latent_heads(in[0], in[1], 4);
    return at::cat({k.flatten(), v.square().flatten()});
  };
  EXPECT_LT(gradient_error(both, inputs), 1e-8);
  const auto keys = [](const std::vector<at::Tensor>& in) { return latent_heads(in[0], in[1], 4).k_BTHK; };
  EXPECT_LT(gradient_error(keys, inputs), 1e-8);
  const auto values = [](const std::vector<at::Tensor>& in) { return latent_heads(in[0], in[1], 4).v_BTHW; };
  EXPECT_LT(gradient_error(values, inputs), 1e-8);
}

TEST(LatentHeads, RefusesShapesThatDoNotFit) {
  const at::Tensor kv = normal({2, 3, 4, 7}, 1), shared = normal({2, 3, 1, 2}, 2);
  EXPECT_THROW(latent_heads(kv, shared, 7), ShapeError);
  EXPECT_THROW(latent_heads(kv, shared.expand({2, 3, 4, 2}), 4), ShapeError);
  EXPECT_THROW(latent_heads(kv, shared.narrow(1, 0, 2), 4), ShapeError);
  EXPECT_THROW(latent_heads(kv, shared.to(at::kFloat), 4), ShapeError);
}

}  // namespace
}  // namespace ballast
