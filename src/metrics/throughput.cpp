// SPDX-License-Identifier: Apache-2.0
#include "metrics/throughput.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <variant>

#include "config/config.h"
#include "metrics/number.h"
#include "spec/decoder_spec.h"

namespace ballast {
namespace {

constexpr double kTera = 1e12;
constexpr double kForwardAndBackward = 3;
constexpr double kMultiplyAdd = 2;

/// (query, key) pairs of one row that a causal product computes.
double causal_pairs(const PairCost& cost, int64_t length) {
  const double T = static_cast<double>(length);
  if (cost.window > 0) {
    const double w = static_cast<double>(std::min(cost.window, length));
    return T * w - w * w / 2;
  }
  if (cost.chunk > 0) {
    const int64_t num_chunks = length / cost.chunk;
    const double chunk = static_cast<double>(cost.chunk), rest = static_cast<double>(length % cost.chunk);
    return (static_cast<double>(num_chunks) * chunk * chunk + rest * rest) / 2;
  }
  return T * T / 2;
}

double mixer_weights(const AttentionSpec& attention, int64_t emb_dim) {
  const int64_t query_width = attention.num_query_heads * attention.head_dim;
  const int64_t key_value_width = attention.num_kv_heads * (attention.head_dim + attention.value_head_dim);
  const int64_t output_width = attention.num_query_heads * attention.value_head_dim;
  return static_cast<double>(emb_dim) * static_cast<double>(query_width + key_value_width + output_width);
}

double mixer_weights(const MlaSpec& attention, int64_t emb_dim) {
  const int64_t query_width = attention.num_heads * attention.head_dim();
  const int64_t queries = attention.q_rank > 0 ? attention.q_rank * (emb_dim + query_width) : emb_dim * query_width;
  const int64_t keys_and_values =
      emb_dim * (attention.kv_rank + attention.rope_dim) +
      attention.kv_rank * attention.num_heads * (attention.nope_dim + attention.value_head_dim);
  return static_cast<double>(queries + keys_and_values + emb_dim * attention.num_heads * attention.value_head_dim);
}

PairCost mixer_pairs(const MlaSpec& attention) {
  return {static_cast<double>(attention.num_heads * (attention.head_dim() + attention.value_head_dim)), 0, 0};
}

PairCost mixer_pairs(const AttentionSpec& attention) {
  const int64_t width = attention.num_query_heads * (attention.head_dim + attention.value_head_dim);
  return {static_cast<double>(width), attention.sliding_window, 0};
}

double weights_of(const DenseFfnSpec& ffn, int64_t emb_dim) {
  return ffn_weights(emb_dim, ffn.mlp_dim, ffn.is_gated ? 2 : 1);
}

double weights_of(const MoeFfnSpec& ffn, int64_t emb_dim) {
  const RouterSpec& router = ffn.router;
  const int64_t width = ffn.latent_dim > 0 ? ffn.latent_dim : emb_dim;
  return static_cast<double>(router.num_experts * emb_dim) +
         static_cast<double>(router.num_experts_per_tok) * ffn_weights(width, ffn.mlp_dim, 2) +
         ffn_weights(emb_dim, ffn.shared_dim, 2) + static_cast<double>(2 * emb_dim * ffn.latent_dim) +
         static_cast<double>(ffn.has_shared_gate ? emb_dim : 0);
}

struct Peak {
  std::array<std::string_view, 2> words;  ///< all must stand in the device's name; an empty word stands in every name
  double tflops;
};

// Dense bf16 with fp32 accumulation, from the makers' data sheets. More special names come first.
constexpr std::array kPeaks = {
    Peak{{"H100", "PCIe"}, 756}, Peak{{"H100", "NVL"}, 835},  Peak{{"H100", ""}, 989},      Peak{{"H200", ""}, 989},
    Peak{{"GH200", ""}, 989},    Peak{{"H800", "PCIe"}, 756}, Peak{{"H800", ""}, 989},      Peak{{"H20", ""}, 148},
    Peak{{"B200", ""}, 2250},    Peak{{"A100", ""}, 312},     Peak{{"A800", ""}, 312},      Peak{{"A30", ""}, 165},
    Peak{{"A40", ""}, 149.7},    Peak{{"A10", ""}, 125},      Peak{{"L40S", ""}, 362},      Peak{{"L40", ""}, 181},
    Peak{{"L4", ""}, 121},       Peak{{"A6000", ""}, 154.8},  Peak{{"RTX", "4090"}, 165.2}, Peak{{"RTX", "3090"}, 71},
};

/// Whole words only, so that A10 is not found in A100.
bool has_word(std::string_view name, std::string_view word) {
  constexpr std::string_view kSeparators = " -_/";
  if (word.empty()) return true;
  for (size_t at = name.find(word); at != std::string_view::npos; at = name.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool starts = at == 0 || kSeparators.find(name[at - 1]) != std::string_view::npos;
    const bool ends = end == name.size() || kSeparators.find(name[end]) != std::string_view::npos;
    if (starts && ends) return true;
  }
  return false;
}

}  // namespace

double ffn_weights(int64_t emb_dim, int64_t mlp_dim, int num_activations) {
  return static_cast<double>(emb_dim) * static_cast<double>(mlp_dim) * (num_activations + 1);
}

double grouped_attention_weights(int64_t emb_dim, int64_t query_heads, int64_t kv_heads, int64_t head_dim,
                                 int num_kv_projections) {
  const int64_t heads = 2 * query_heads + num_kv_projections * kv_heads;
  return static_cast<double>(emb_dim) * static_cast<double>(heads * head_dim);
}

FlopCount training_flops(const FlopShape& shape) {
  const double tokens = shape.rows * static_cast<double>(shape.length);
  double weights = static_cast<double>(shape.emb_dim) * static_cast<double>(shape.vocab_size);
  double products = 0;
  for (const LayerFlops& layer : shape.layers) {
    weights += layer.active_weights;
    products += tokens * layer.state_products;
    for (const PairCost& cost : layer.pairs) products += shape.rows * cost.width * causal_pairs(cost, shape.length);
  }
  const double passes = kForwardAndBackward + (shape.has_reference_forward ? 1 : 0);
  const double scale = kMultiplyAdd * passes * static_cast<double>(shape.accumulation_steps) / kTera;
  FlopCount count;
  count.weights = scale * tokens * weights;
  count.attention = scale * products;
  count.total = count.weights + count.attention;
  return count;
}

FlopShape flop_shape(const Config& config, const DecoderSpec& spec) {
  FlopShape shape;
  shape.rows = config.per_device_batch_size;
  shape.length = config.max_target_length;
  shape.emb_dim = spec.emb_dim;
  shape.vocab_size = spec.vocab_size;
  shape.accumulation_steps = config.gradient_accumulation_steps;
  shape.has_reference_forward = config.use_dpo;
  for (const auto* layers : {&spec.layers, &spec.mtp.layers}) {
    for (const LayerSpec& layer : *layers) {
      LayerFlops flops;
      std::visit(
          [&](const auto& mixer) {
            flops.active_weights += mixer_weights(mixer, spec.emb_dim);
            flops.pairs.push_back(mixer_pairs(mixer));
          },
          layer.mixer);
      std::visit([&](const auto& ffn) { flops.active_weights += weights_of(ffn, spec.emb_dim); }, layer.ffn);
      shape.layers.push_back(flops);
    }
  }
  return shape;
}

double tokens_per_device(const Config& config) {
  return config.per_device_batch_size * static_cast<double>(config.max_target_length) *
         static_cast<double>(config.gradient_accumulation_steps);
}

std::optional<double> peak_tflops_of(const std::string& device_name) {
  for (const Peak& peak : kPeaks) {
    if (has_word(device_name, peak.words[0]) && has_word(device_name, peak.words[1])) return peak.tflops;
  }
  return std::nullopt;
}

std::optional<double> peak_tflops(const Config& config, const std::string& device_name) {
  if (config.peak_tflops_per_device > 0) return config.peak_tflops_per_device;
  return peak_tflops_of(device_name);
}

std::optional<std::string> peak_line(const Config& config, const std::string& device_name) {
  const std::optional<double> peak = peak_tflops(config, device_name);
  if (!peak) return std::nullopt;
  const std::string source = config.peak_tflops_per_device > 0
                                 ? "peak_tflops_per_device, " + config.origin("peak_tflops_per_device")
                                 : "dense bf16 of " + device_name + " by its data sheet";
  return "peak: " + general(*peak, 6) + " TFLOP/s a device (" + source + ")";
}

}  // namespace ballast
