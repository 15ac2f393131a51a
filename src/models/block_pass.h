// SPDX-License-Identifier: Apache-2.0
// Rematerialisation: a block that keeps its inputs only and is run again in the backward pass.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <vector>

namespace ballast {

/// What a block must know of the run it is in. Two separate facts: `counts` (statistics may be handed out) and
/// `replays` (discrete decisions are read from the stash). A block nested in one that is being re-run does its first
/// run with neither.
class BlockPass {
 public:
  BlockPass(bool counts, bool replays, std::vector<at::Tensor>* stash)
      : counts_(counts), replays_(replays), stash_(stash) {}

  bool counts() const { return counts_; }
  /// A discrete decision (top-k indices, received counts): made in the first run, read back in the second, so that
  /// the second run cannot decide otherwise.
  at::Tensor decide(const std::function<at::Tensor()>& decision);

 private:
  bool counts_;
  bool replays_;
  std::vector<at::Tensor>* stash_;
  size_t next_ = 0;
};

/// Inputs to outputs. It captures its unit and the batch context by pointer and no large tensor by value. Random
/// numbers come from generators made inside from their key, so both runs draw the same.
using BlockBody = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs, BlockPass& pass)>;

/// Runs `body`. With `rematerializes` and grad mode on, only `inputs` are kept and the backward pass runs the body a
/// second time; values and gradients are bit-equal to the plain run. Floating outputs require grad.
std::vector<at::Tensor> run_block(BlockBody body, const std::vector<at::Tensor>& inputs, bool rematerializes);

}  // namespace ballast
