// SPDX-License-Identifier: Apache-2.0
// Attention by blocks of queries in plain tensor operations: any device, soft cap. Letters: n queries of a block, m
// keys it sees, R = H / G query heads that share a key/value head.
#include <ATen/ATen.h>

#include <algorithm>

#include "ops/attention_kinds.h"

namespace ballast {
namespace {

constexpr int64_t kBlockQueries = 128;

/// One block: queries [query, query + num_queries) of one row, keys [key, key + num_keys) up to its last query.
struct AttentionBlock {
  int64_t row, query, num_queries, key, num_keys;
};

template <typename Run>
void for_each_block(const AttentionPlan& plan, const Run& run) {
  for (const AttentionTile& tile : plan.tiles) {
    for (int64_t row = tile.row; row < tile.row + tile.num_rows; ++row) {
      for (int64_t query = tile.query_begin; query < tile.query_end; query += kBlockQueries) {
        const int64_t end = std::min(query + kBlockQueries, tile.query_end);
        const int64_t key = plan.window > 0 ? std::max(tile.key_begin, query - plan.window + 1) : tile.key_begin;
        run(AttentionBlock{row, query, end - query, key, end - key});
      }
    }
  }
}

/// The block's queries of a [B, T, H, K] tensor as [G, R n, K], so that heads which share keys share a product.
at::Tensor grouped_queries(const at::Tensor& x_BTHK, const AttentionBlock& block, int64_t num_groups) {
  return x_BTHK.select(0, block.row)
      .narrow(0, block.query, block.num_queries)
      .unflatten(1, {num_groups, -1})
      .permute({1, 2, 0, 3})
      .flatten(1, 2);
}

/// The inverse: [G, R n, K] -> [n, H, K].
at::Tensor ungrouped(const at::Tensor& x_GRnK, const AttentionBlock& block) {
  return x_GRnK.unflatten(1, {-1, block.num_queries}).permute({2, 0, 1, 3}).flatten(1, 2);
}

/// The place of the block's queries in a [B, T, H, ...] tensor, [n, H, ...].
at::Tensor block_queries(const at::Tensor& x, const AttentionBlock& block) {
  return x.select(0, block.row).narrow(0, block.query, block.num_queries);
}

/// The place of the block's keys in a [B, T, G, K] tensor, [G, m, K].
at::Tensor block_keys(const at::Tensor& x, const AttentionBlock& block) {
  return x.select(0, block.row).narrow(0, block.key, block.num_keys).transpose(0, 1);
}

/// Capped scores with -inf where a key is not visible, [G, R n, m]. `slope` takes the cap's derivative if wanted.
at::Tensor block_scores(const at::Tensor& q_GRnK, const at::Tensor& k_GmK, const AttentionBlock& block,
                        const AttentionPlan& plan, double scale, double soft_cap, at::Tensor* slope) {
  at::Tensor scores = at::matmul(q_GRnK, k_GmK.transpose(1, 2)).mul_(scale);
  if (soft_cap > 0) {
    scores.div_(soft_cap).tanh_();
    if (slope != nullptr) *slope = scores.square().neg_().add_(1);
    scores.mul_(soft_cap);
  }
  const at::Tensor hidden =
      visible_keys(block.num_queries, block.num_keys, plan.window, scores.device()).logical_not_();
  scores.view({scores.size(0), -1, block.num_queries, block.num_keys})
      .masked_fill_(hidden, -std::numeric_limits<double>::infinity());
  return scores;
}

}  // namespace

AttentionForward blocks_forward(const AttentionOperands& operands, const AttentionPlan& plan, double scale,
                                double soft_cap) {
  const at::Tensor& q = operands.q_BTHK;
  const int64_t num_groups = operands.k_BTGK.size(2);
  AttentionForward result;
  result.out_BTHW = at::zeros({q.size(0), q.size(1), q.size(2), operands.v_BTGW.size(3)}, q.options());
  result.lse_BTH = at::zeros(q.sizes().slice(0, 3), q.options());
  for_each_block(plan, [&](const AttentionBlock& block) {
    at::Tensor scores = block_scores(grouped_queries(q, block, num_groups), block_keys(operands.k_BTGK, block), block,
                                     plan, scale, soft_cap, nullptr);
    const at::Tensor lse = at::logsumexp(scores, -1, /*keepdim=*/true);
    const at::Tensor out = at::matmul(scores.sub_(lse).exp_(), block_keys(operands.v_BTGW, block));
    block_queries(result.out_BTHW, block).copy_(ungrouped(out, block));
    block_queries(result.lse_BTH, block).copy_(ungrouped(lse, block).squeeze(-1));
  });
  return result;
}

AttentionOperands blocks_backward(const AttentionOperands& operands, const AttentionForward& result,
                                  const at::Tensor& d_out_BTHW, const AttentionPlan& plan, double scale,
                                  double soft_cap) {
  const int64_t num_groups = operands.k_BTGK.size(2);
  const auto zeros = [](const at::Tensor& x) { return at::zeros(x.sizes(), x.options()); };
  AttentionOperands d{zeros(operands.q_BTHK), zeros(operands.k_BTGK), zeros(operands.v_BTGW)};
  const at::Tensor lse_BTH1 = result.lse_BTH.unsqueeze(-1);
  const at::Tensor inner_BTH1 = (d_out_BTHW * result.out_BTHW).sum(-1, /*keepdim=*/true);
  for_each_block(plan, [&](const AttentionBlock& block) {
    const at::Tensor q = grouped_queries(operands.q_BTHK, block, num_groups);
    const at::Tensor k = block_keys(operands.k_BTGK, block), v = block_keys(operands.v_BTGW, block);
    const at::Tensor d_out = grouped_queries(d_out_BTHW, block, num_groups);
    at::Tensor slope;
    const at::Tensor probs = block_scores(q, k, block, plan, scale, soft_cap, &slope)
                                 .sub_(grouped_queries(lse_BTH1, block, num_groups))
                                 .exp_();
    block_keys(d.v_BTGW, block).add_(at::matmul(probs.transpose(1, 2), d_out));
    at::Tensor d_scores = at::matmul(d_out, v.transpose(1, 2)).sub_(grouped_queries(inner_BTH1, block, num_groups));
    d_scores.mul_(probs).mul_(scale);
    if (slope.defined()) d_scores.mul_(slope);
    block_queries(d.q_BTHK, block).copy_(ungrouped(at::matmul(d_scores, k), block));
    block_keys(d.k_BTGK, block).add_(at::matmul(d_scores.transpose(1, 2), q));
  });
  return d;
}

}  // namespace ballast
