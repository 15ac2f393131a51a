// SPDX-License-Identifier: Apache-2.0
// One micro-batch on the device, with everything that all layers share.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "data/batch.h"
#include "losses/load_balance.h"
#include "losses/loss_terms.h"
#include "ops/attention.h"
#include "ops/rope.h"
#include "spec/decoder_spec.h"
#include "tensor/precision.h"

namespace ballast {

/// Where in the run a micro-batch stands: the key of every random stream used inside the model.
struct RunPosition {
  uint64_t seed = 0;  ///< init_weights_seed
  int64_t step = 0;
  bool is_training = false;
};

/// A rope of the model with its table for this micro-batch.
struct BatchRope {
  RopeSpec spec;
  RopeTable table;
};

struct BatchContext {
  int64_t rows = 0;
  int64_t length = 0;
  RunPosition position;
  at::Tensor input_N;      ///< int64 token ids, N = rows * length
  at::Tensor position_BT;  ///< int64, restarts at each document
  at::Tensor segment_BT;   ///< int64, 0 = padding
  at::Tensor instance_B;   ///< int64 number of each row in the step's global batch
  at::Tensor target_N;     ///< int64
  at::Tensor counts_N;     ///< bool: the position counts in the loss
  StepDivisors divisors;   ///< of the whole step
  BalanceGroups balance;   ///< of this micro-batch
  /// A prediction module's view: inputs, targets, what counts and what is routed are its own, the rest is that of the
  /// batch. Empty in a view.
  std::vector<std::shared_ptr<const BatchContext>> mtp;
  std::vector<BatchRope> ropes;                                   ///< parallel to DecoderSpec::ropes
  std::map<int64_t, std::shared_ptr<const AttentionPlan>> plans;  ///< by sliding window (0 = none)
};

using BatchContextPtr = std::shared_ptr<const BatchContext>;

/// What one micro-batch adds to the divisors of its step. `instances` as below.
StepDivisors divisors_of(const HostBatch& batch, const std::vector<int64_t>& instances, const DecoderSpec& spec);

/// @param batch the micro-batch, `batch.rows` rows; `instances` their numbers in the step's global batch
BatchContextPtr make_batch_context(const HostBatch& batch, const std::vector<int64_t>& instances,
                                   const DecoderSpec& spec, const Precision& precision, const RunPosition& position,
                                   const StepDivisors& divisors, const at::Device& device);

}  // namespace ballast
