// SPDX-License-Identifier: Apache-2.0
// Softmax attention over packed documents with sliding windows, grouped heads, sinks and a soft cap.
//
// Letters beyond the project's: G key/value heads (H is a multiple of G), W width of v.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensor/cpu_features.h"

namespace ballast {

/// Queries [query_begin, query_end) of rows [row, row + num_rows) and the keys they need. Query t sees key s of the
/// tile iff s <= t, and t - window < s where there is a window.
struct AttentionTile {
  int64_t row = 0, num_rows = 1;
  int64_t query_begin = 0, query_end = 0;
  int64_t key_begin = 0, key_end = 0;  ///< key_end == query_end
  bool is_causal_square = false;       ///< same range of queries and keys, all of it inside the window
  bool operator==(const AttentionTile&) const = default;
};

/// What is computed for a batch: nothing outside the tiles is. Every counted query is in exactly one tile; a query in
/// no tile is padding, its output and gradient are 0. Made once a batch and window, shared by the layers.
struct AttentionPlan {
  int64_t rows = 0, length = 0;
  int64_t window = 0;                  ///< 0: none
  bool is_whole_batch_causal = false;  ///< every row is one document that fills it: a single tile
  std::vector<AttentionTile> tiles;
};

/// Tiles for documents that never see one another.
///
/// @param segments  [rows * length] document number of each position, 0 = padding; a document is a run of equal numbers
/// @param window    a query sees itself and window - 1 earlier keys of its document; 0: all earlier ones
/// @throws ShapeError if segments has another size or window < 0
AttentionPlan make_attention_plan(std::span<const int32_t> segments, int64_t rows, int64_t length, int64_t window);

struct AttentionOptions {
  double scale = 1;     ///< multiplies q.k
  double soft_cap = 0;  ///< c * tanh(score / c); 0: off
  /// bf16 and fp16 inputs are computed in fp32. fp32 and fp64 always stay what they are.
  bool computes_in_fp32 = !has_native_bf16_gemm();
};

/// softmax(scale q.k) v for every query of the plan. No [H, T, T] tensor is ever made; backward keeps q, k, v, the
/// output and one number a query and head. Query head h reads key/value head h / (H / G).
///
/// @param sinks_H  one extra logit a head in the softmax denominator, without a value; undefined: none
/// @return         [B, T, H, W] in the type of q
/// @throws ShapeError if shapes, types or plan disagree
at::Tensor attention(const at::Tensor& q_BTHK, const at::Tensor& k_BTGK, const at::Tensor& v_BTGW,
                     std::shared_ptr<const AttentionPlan> plan, const AttentionOptions& options,
                     const at::Tensor& sinks_H);

/// Queries, keys and values of one type. They may be views of any outer strides.
struct AttentionOperands {
  at::Tensor q_BTHK, k_BTGK, v_BTGW;
};

/// The output, and the logarithm of each query's softmax denominator (a sink included), fp32 (fp64 for fp64): all that
/// backward needs beside the operands. lse is undefined on a device whose attention keeps that to itself.
struct AttentionForward {
  at::Tensor out_BTHW, lse_BTH;
};

/// attention(), with its lse.
///
/// @param given  what an earlier run left; where both tensors are defined they are returned and no score is formed
AttentionForward attention_forward(const AttentionOperands& operands, std::shared_ptr<const AttentionPlan> plan,
                                   const AttentionOptions& options, const at::Tensor& sinks_H,
                                   const AttentionForward& given = {});

}  // namespace ballast
