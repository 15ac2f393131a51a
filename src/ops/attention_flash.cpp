// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "ops/attention_kinds.h"

namespace ballast {
namespace {

/// Positions [begin, end) of the tile's rows, heads before positions as the kernel wants them.
at::Tensor tile_view(const at::Tensor& x_BTHK, const AttentionTile& tile, int64_t begin, int64_t end) {
  return x_BTHK.narrow(0, tile.row, tile.num_rows).narrow(1, begin, end - begin).transpose(1, 2);
}
at::Tensor query_view(const at::Tensor& x, const AttentionTile& tile) {
  return tile_view(x, tile, tile.query_begin, tile.query_end);
}
at::Tensor key_view(const at::Tensor& x, const AttentionTile& tile) {
  return tile_view(x, tile, tile.key_begin, tile.key_end);
}

/// The kernel wants heads of one width whose channels lie side by side.
at::Tensor padded_heads(const at::Tensor& x, int64_t width) {
  if (x.size(-1) < width) return at::constant_pad_nd(x, {0, width - x.size(-1)});
  return x.stride(-1) == 1 ? x : x.contiguous();
}

int64_t kernel_width(const AttentionOperands& operands) {
  return std::max(operands.q_BTHK.size(-1), operands.v_BTGW.size(-1));
}

AttentionOperands padded_operands(const AttentionOperands& operands) {
  const int64_t width = kernel_width(operands);
  return {padded_heads(operands.q_BTHK, width), padded_heads(operands.k_BTGK, width),
          padded_heads(operands.v_BTGW, width)};
}

/// Additive masks of the tiles that are no causal squares, one a distinct shape.
class TileMasks {
 public:
  TileMasks(const AttentionPlan& plan, const at::Tensor& like) {
    for (const AttentionTile& tile : plan.tiles) {
      if (tile.is_causal_square) continue;
      at::Tensor& mask = masks_[shape(tile)];
      if (mask.defined()) continue;
      const auto [num_queries, num_keys] = shape(tile);
      mask = at::zeros({num_queries, num_keys}, like.options());
      mask.masked_fill_(visible_keys(num_queries, num_keys, plan.window, like.device()).logical_not_(),
                        -std::numeric_limits<double>::infinity());
    }
  }

  std::optional<at::Tensor> of(const AttentionTile& tile) const {
    if (tile.is_causal_square) return std::nullopt;
    return masks_.at(shape(tile));
  }

 private:
  static std::pair<int64_t, int64_t> shape(const AttentionTile& tile) {
    return {tile.query_end - tile.query_begin, tile.key_end - tile.key_begin};
  }
  std::map<std::pair<int64_t, int64_t>, at::Tensor> masks_;
};

/// Work of a tile in arbitrary units: scores, and a constant for the call.
int64_t tile_cost(const AttentionTile& tile) {
  return tile.num_rows * (tile.query_end - tile.query_begin) * (tile.key_end - tile.key_begin) + 1024;
}

/// Whether tiles share no key (only a document that outgrows its window has other tiles than squares) and none is so
/// large that a thread alone with it would keep the others waiting.
bool can_share_out(const AttentionPlan& plan, int64_t total_cost, int num_threads) {
  return num_threads > 1 && std::ranges::all_of(plan.tiles, [&](const AttentionTile& tile) {
           return tile.is_causal_square && tile_cost(tile) * num_threads <= total_cost / 2;
         });
}

/// Runs all tiles: many small ones by one thread each (contiguous shares of about equal work), others one after the
/// other with all threads inside. Tiles write to places of their own, so the numbers do not depend on the shares.
template <typename Run>
void for_each_tile(const AttentionPlan& plan, const Run& run) {
  int64_t total_cost = 0;
  for (const AttentionTile& tile : plan.tiles) total_cost += tile_cost(tile);
  const int num_threads = at::get_num_threads();
  if (!can_share_out(plan, total_cost, num_threads)) {
    for (const AttentionTile& tile : plan.tiles) run(tile);
    return;
  }
  at::parallel_for(0, num_threads, 1, [&](int64_t begin, int64_t end) {
    const at::NoGradGuard no_grad;  // grad mode does not follow into worker threads
    int64_t cost = 0;
    for (const AttentionTile& tile : plan.tiles) {
      const int64_t share = cost * num_threads / total_cost;
      if (share >= begin && share < end) run(tile);
      cost += tile_cost(tile);
    }
  });
}

}  // namespace

AttentionForward flash_forward(const AttentionOperands& operands, const AttentionPlan& plan, double scale) {
  const AttentionOperands padded = padded_operands(operands);
  const auto run = [&](const AttentionTile& tile, const std::optional<at::Tensor>& mask) {
    return at::_scaled_dot_product_flash_attention_for_cpu(query_view(padded.q_BTHK, tile),
                                                           key_view(padded.k_BTGK, tile), key_view(padded.v_BTGW, tile),
                                                           0.0, tile.is_causal_square, mask, scale);
  };
  AttentionForward result;
  if (plan.is_whole_batch_causal) {
    const auto [out, lse] = run(plan.tiles.front(), std::nullopt);
    result = {out.transpose(1, 2), lse.transpose(1, 2)};
  } else {
    const at::Tensor& q = padded.q_BTHK;
    const at::ScalarType lse_type = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    result.out_BTHW = at::zeros(q.sizes(), q.options());
    result.lse_BTH = at::zeros(q.sizes().slice(0, 3), q.options().dtype(lse_type));
    const TileMasks masks(plan, result.lse_BTH);
    for_each_tile(plan, [&](const AttentionTile& tile) {
      const auto [out, lse] = run(tile, masks.of(tile));
      query_view(result.out_BTHW, tile).copy_(out);
      query_view(result.lse_BTH, tile).copy_(lse);
    });
  }
  result.out_BTHW = result.out_BTHW.narrow(-1, 0, operands.v_BTGW.size(-1)).contiguous();
  return result;
}

AttentionOperands flash_backward(const AttentionOperands& operands, const AttentionForward& result,
                                 const at::Tensor& d_out_BTHW, const AttentionPlan& plan, double scale) {
  const AttentionOperands padded = padded_operands(operands);
  const int64_t width = kernel_width(operands);
  const at::Tensor out = padded_heads(result.out_BTHW, width), d_out = padded_heads(d_out_BTHW, width);
  const auto run = [&](const AttentionTile& tile, const std::optional<at::Tensor>& mask) {
    return at::_scaled_dot_product_flash_attention_for_cpu_backward(
        query_view(d_out, tile), query_view(padded.q_BTHK, tile), key_view(padded.k_BTGK, tile),
        key_view(padded.v_BTGW, tile), query_view(out, tile), query_view(result.lse_BTH, tile), 0.0,
        tile.is_causal_square, mask, scale);
  };
  AttentionOperands d;
  if (plan.is_whole_batch_causal) {
    const auto [d_q, d_k, d_v] = run(plan.tiles.front(), std::nullopt);
    d = {d_q.transpose(1, 2), d_k.transpose(1, 2), d_v.transpose(1, 2)};
  } else {
    const auto zeros = [](const at::Tensor& x) { return at::zeros(x.sizes(), x.options()); };
    d = {zeros(padded.q_BTHK), zeros(padded.k_BTGK), zeros(padded.v_BTGW)};
    const TileMasks masks(plan, result.lse_BTH);
    for_each_tile(plan, [&](const AttentionTile& tile) {
      const auto [d_q, d_k, d_v] = run(tile, masks.of(tile));
      query_view(d.q_BTHK, tile).copy_(d_q);
      key_view(d.k_BTGK, tile).add_(d_k);
      key_view(d.v_BTGW, tile).add_(d_v);
    });
  }
  const int64_t key_width = operands.q_BTHK.size(-1), value_width = operands.v_BTGW.size(-1);
  return {d.q_BTHK.narrow(-1, 0, key_width), d.k_BTGK.narrow(-1, 0, key_width), d.v_BTGW.narrow(-1, 0, value_width)};
}

}  // namespace ballast
