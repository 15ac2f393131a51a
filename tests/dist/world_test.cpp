// SPDX-License-Identifier: Apache-2.0
#include "dist/world.h"

#include <gtest/gtest.h>

namespace ballast {
namespace {

TEST(SingleRankWorld, ExchangesNothingAndCopiesNothing) {
  const auto world = single_rank_world();
  EXPECT_EQ(world->rank(), 0);
  EXPECT_EQ(world->size(), 1);
  EXPECT_EQ(world->data_size(), 1);
  std::vector<double> values = {1.5, 2.5};
  world->sum_over_data(values);
  EXPECT_EQ(values, (std::vector<double>{1.5, 2.5}));
  const at::Tensor shard = at::ones({3});
  EXPECT_TRUE(world->gather({shard})[0].is_same(shard));
  const auto reduced = world->reduce_scatter({shard, at::Tensor()});
  EXPECT_TRUE(reduced[0].is_same(shard));
  EXPECT_FALSE(reduced[1].defined());
}

}  // namespace
}  // namespace ballast
