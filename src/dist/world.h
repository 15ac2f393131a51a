// SPDX-License-Identifier: Apache-2.0
// The ranks of a run and what they exchange. Models and steps speak to this interface only.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace ballast {

/// One rank's view of the run. The number and order of calls never depend on data, so that ranks cannot wait for
/// one another in different calls.
class World {
 public:
  virtual ~World() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  /// Place of this rank among the ranks that hold different rows of a batch.
  virtual int64_t data_rank() const = 0;
  virtual int64_t data_size() const = 0;

  /// Adds `values` over all ranks that hold different rows, in rank order. Losses are divided beforehand, so sums are
  /// all that is needed.
  virtual void sum_over_data(std::vector<double>& values) const = 0;

  /// Full tensors of a unit from this rank's shards. One rank: the shards themselves.
  virtual std::vector<at::Tensor> gather(const std::vector<at::Tensor>& shards) const = 0;
  /// This rank's shard of the sum of full gradients; undefined stands for zero. One rank: the gradients themselves.
  virtual std::vector<at::Tensor> reduce_scatter(std::vector<at::Tensor> gradients) const = 0;

  virtual void barrier() const = 0;
};

/// The world of one rank: nothing is exchanged, nothing is copied.
std::shared_ptr<const World> single_rank_world();

}  // namespace ballast
