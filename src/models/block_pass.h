// SPDX-License-Identifier: Apache-2.0
// Rematerialisation: a block that keeps its inputs, and what a policy names, and is run again in the backward pass.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <vector>

#include "spec/remat.h"

namespace ballast {

/// What the first run of a block leaves for the second, in the order of the first.
struct BlockStash {
  NamedTensors kept;  ///< names that the policy keeps
  std::vector<at::Tensor> tensors;
};

/// What a block must know of the run it is in. Two separate facts: `counts` (statistics may be handed out) and
/// `replays` (discrete decisions and kept tensors are read from the stash). A block nested in one that is being re-run
/// does its first run with neither.
class BlockPass {
 public:
  using Tensors = std::vector<at::Tensor>;
  /// Forms tensors, all but those in `given` (empty, or one a result; undefined: to be formed), which it only gives
  /// their place in the graph, as linear_group() does.
  using Maker = std::function<Tensors(const Tensors& given)>;

  BlockPass(bool counts, bool replays, BlockStash* stash) : counts_(counts), replays_(replays), stash_(stash) {}

  bool counts() const { return counts_; }
  bool replays() const { return replays_; }
  /// A discrete decision (top-k indices, received counts): made in the first run, read back in the second, so that
  /// the second run cannot decide otherwise.
  at::Tensor decide(const std::function<at::Tensor()>& decision);

  /// What `make` forms, one tensor a name (a name may stand twice). The first run keeps those that the policy names;
  /// the second hands them to `make`, so that no product is formed twice and gradients stay bit-equal.
  Tensors named(const std::vector<NamedTensor>& names, const Maker& make);

 private:
  at::Tensor next_stashed();

  bool counts_;
  bool replays_;
  BlockStash* stash_;
  size_t next_ = 0;
};

/// Inputs to outputs. It captures its unit and the batch context by pointer and no large tensor by value. Random
/// numbers come from generators made inside from their key, so both runs draw the same.
using BlockBody = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs, BlockPass& pass)>;

/// Runs `body`. With `rematerializes` and grad mode on, only `inputs` and the tensors named in `kept` are kept and the
/// backward pass runs the body a second time; values and gradients are bit-equal to the plain run. Floating outputs
/// require grad.
std::vector<at::Tensor> run_block(BlockBody body, const std::vector<at::Tensor>& inputs, bool rematerializes,
                                  const NamedTensors& kept = {});

}  // namespace ballast
