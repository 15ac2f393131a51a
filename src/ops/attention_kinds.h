// SPDX-License-Identifier: Apache-2.0
// The ways to compute attention() behind its one interface. Each gives the same numbers; tests compare them.
#pragma once

#include "ops/attention.h"

namespace ballast {

enum class AttentionKind {
  kFlash,   ///< the CPU flash kernel, tile by tile; no soft cap
  kBlocks,  ///< blocks of queries by matmul and softmax; any device, soft cap
  kMasked,  ///< one scaled_dot_product_attention call with a boolean mask; any device, no soft cap, no sinks
};

/// The kind that attention() takes for these operands.
AttentionKind choose_attention(const at::Tensor& q_BTHK, const AttentionOptions& options, const at::Tensor& sinks_H);

/// attention() by a given kind.
at::Tensor attention_by(AttentionKind kind, const at::Tensor& q_BTHK, const at::Tensor& k_BTGK,
                        const at::Tensor& v_BTGW, std::shared_ptr<const AttentionPlan> plan,
                        const AttentionOptions& options, const at::Tensor& sinks_H);

/// attention_forward() by a given kind.
AttentionForward attention_forward_by(AttentionKind kind, const AttentionOperands& operands,
                                      std::shared_ptr<const AttentionPlan> plan, const AttentionOptions& options,
                                      const at::Tensor& sinks_H, const AttentionForward& given);

/// Forward and backward without sinks. A caller that has put a sink into lse and output gets the gradients of the
/// softmax with that sink.
AttentionForward flash_forward(const AttentionOperands& operands, const AttentionPlan& plan, double scale);
AttentionOperands flash_backward(const AttentionOperands& operands, const AttentionForward& result,
                                 const at::Tensor& d_out_BTHW, const AttentionPlan& plan, double scale);
AttentionForward blocks_forward(const AttentionOperands& operands, const AttentionPlan& plan, double scale,
                                double soft_cap);
AttentionOperands blocks_backward(const AttentionOperands& operands, const AttentionForward& result,
                                  const at::Tensor& d_out_BTHW, const AttentionPlan& plan, double scale,
                                  double soft_cap);

/// Queries [num_keys - num_queries, num_keys) of a range of keys: true where the query sees the key.
/// [num_queries, num_keys] bool.
at::Tensor visible_keys(int64_t num_queries, int64_t num_keys, int64_t window, const at::Device& device);

}  // namespace ballast
