// SPDX-License-Identifier: Apache-2.0
#include "dist/world.h"

namespace ballast {
namespace {

class SingleRankWorld final : public World {
 public:
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }
  int64_t data_rank() const override { return 0; }
  int64_t data_size() const override { return 1; }
  void sum_over_data(std::vector<double>&) const override {}
  std::vector<at::Tensor> gather(const std::vector<at::Tensor>& shards) const override { return shards; }
  std::vector<at::Tensor> reduce_scatter(std::vector<at::Tensor> gradients) const override { return gradients; }
  void barrier() const override {}
};

}  // namespace

std::shared_ptr<const World> single_rank_world() {
  return std::make_shared<SingleRankWorld>();
}

}  // namespace ballast
