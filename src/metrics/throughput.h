// SPDX-License-Identifier: Apache-2.0
// Floating-point operations of a training step, and the peak rates of known devices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ballast {

struct Config;
struct DecoderSpec;

/// One attention-like product of a layer. A (query, key) pair that is computed costs 2 * width operations.
struct PairCost {
  double width = 0;    ///< sum over heads of (score width + value width)
  int64_t window = 0;  ///< keys a query sees at most (sliding window, or the top-k of an indexer); 0: all earlier
  int64_t chunk = 0;   ///< attention stays inside chunks of this many positions; 0: none
  bool operator==(const PairCost&) const = default;
};

/// One layer. Elementwise work, norms and the embedding lookup are not counted.
struct LayerFlops {
  double active_weights = 0;    ///< matrix elements that one token is multiplied with
  std::vector<PairCost> pairs;  ///< products whose cost grows with the row length
  double state_products = 0;    ///< multiplications a token of a linear-attention state update; counted as attention
};

/// What the count depends on. Each family describes its layers; MTP modules are further layers.
struct FlopShape {
  double rows = 0;     ///< per_device_batch_size; a fraction is allowed
  int64_t length = 0;  ///< max_target_length
  int64_t emb_dim = 0;
  int64_t vocab_size = 0;
  int64_t accumulation_steps = 1;      ///< gradient_accumulation_steps
  bool has_reference_forward = false;  ///< DPO: one more forward pass, a third on top
  std::vector<LayerFlops> layers;
};

/// TFLOP (1e12 operations) of one step on one device, forward and backward.
struct FlopCount {
  double total = 0;
  double weights = 0;    ///< products with parameters, the output head included
  double attention = 0;  ///< products between activations
};

/// Active weights of the usual parts. All widths are per token; counts as MaxText's.
double ffn_weights(int64_t emb_dim, int64_t mlp_dim, int num_activations);
/// q, k, v and output projections. `num_kv_projections` is 1 where the value is the raw key projection, else 2.
double grouped_attention_weights(int64_t emb_dim, int64_t query_heads, int64_t kv_heads, int64_t head_dim,
                                 int num_kv_projections);

/// Training operations of one step on one device.
///
///   weights   = 3 * (2 * rows * length * (sum of active_weights + emb_dim * vocab_size))
///   attention = 3 * (2 * rows * (sum of width * pairs) + 2 * rows * length * sum of state_products)
///   pairs     = length^2 / 2, or length * w - w^2 / 2 with w = min(window, length),
///               or half the sum of the squared chunk lengths
///
/// both times accumulation_steps, and 4/3 of it with a reference forward. Recomputation, padding and dropped tokens
/// are not looked at.
/// @source AI-Hypercomputer/maxtext src/maxtext/utils/maxtext_utils.py (calculate_tflops_training_per_device)
FlopCount training_flops(const FlopShape& shape);

/// The shape of a configured model.
FlopShape flop_shape(const Config& config, const DecoderSpec& spec);

/// Positions of one step on one device, padding included.
double tokens_per_device(const Config& config);

/// Dense bf16 peak in TFLOP/s of a GPU by the name its driver gives, or nothing for unknown names.
std::optional<double> peak_tflops_of(const std::string& device_name);

/// peak_tflops_per_device where it is set, else peak_tflops_of(device_name).
std::optional<double> peak_tflops(const Config& config, const std::string& device_name);

/// "peak: 989 TFLOP/s a device (peak_tflops_per_device, command line)": what perf/mfu divides by and where the number
/// comes from. Nothing where no peak is known.
std::optional<std::string> peak_line(const Config& config, const std::string& device_name);

}  // namespace ballast
