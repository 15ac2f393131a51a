// SPDX-License-Identifier: Apache-2.0
// A small decoder and batches for tests of the frame: two layers, grouped heads, packed rows, unequal loss masks.
#pragma once

#include <memory>
#include <numeric>

#include "data/batch.h"
#include "models/decoder.h"
#include "spec/decoder_spec.h"

namespace ballast::testing {

inline constexpr int64_t kTinyVocab = 61;

inline DecoderSpec tiny_spec(bool is_head_tied = false) {
  DecoderSpec spec;
  spec.vocab_size = kTinyVocab;
  spec.emb_dim = 16;
  RopeSpec rope;
  rope.rotary_dim = 8;
  spec.ropes = {rope};
  for (int64_t layer = 0; layer < 2; ++layer) {
    AttentionSpec attention;
    attention.num_query_heads = 4;
    attention.num_kv_heads = 2;
    attention.head_dim = attention.value_head_dim = 8;
    attention.scale = 1.0 / std::sqrt(8.0);
    attention.rope = 0;
    attention.sliding_window = layer == 0 ? 5 : 0;
    LayerSpec block;
    block.mixer = attention;
    block.ffn = DenseFfnSpec{.mlp_dim = 24};
    block.pre_mixer_norm.name = "input_layernorm";
    block.pre_ffn_norm.name = "post_attention_layernorm";
    spec.layers.push_back(block);
  }
  spec.final_norm.name = "norm";
  spec.is_head_tied = is_head_tied;
  return spec;
}

/// The tiny model with five experts in place of each feed-forward layer, two a token, sigmoid scores and a selection
/// bias.
inline DecoderSpec tiny_moe_spec() {
  DecoderSpec spec = tiny_spec();
  MoeFfnSpec experts;
  experts.router = {.num_experts = 5, .num_experts_per_tok = 2, .score = RouterScore::kSigmoid};
  experts.router.scaling_factor = 1.5;
  experts.router.has_selection_bias = true;
  experts.mlp_dim = 12;
  for (LayerSpec& layer : spec.layers) layer.ffn = experts;
  spec.moe.load_balance_weight = 0.3;
  spec.moe.router_z_weight = 0.01;
  spec.moe.selection_bias_rate = 0.01;
  return spec;
}

/// The tiny model of experts with two modules that predict further tokens.
inline DecoderSpec tiny_mtp_spec() {
  DecoderSpec spec = tiny_moe_spec();
  spec.mtp.layers = {spec.layers[1], spec.layers[1]};
  spec.mtp.loss_weight = 0.3;
  return spec;
}

/// The tiny model with latent attention: heads of 6 channels without and 4 with rotation, values 5 wide, latents 7 and
/// 9 wide. Layer 0 has a latent of the queries, layer 1 none.
inline DecoderSpec tiny_mla_spec() {
  DecoderSpec spec = tiny_spec();
  spec.ropes[0].rotary_dim = 4;
  spec.ropes[0].is_interleaved = true;
  for (LayerSpec& layer : spec.layers) {
    MlaSpec attention;
    attention.num_heads = 4;
    attention.q_rank = &layer == &spec.layers[0] ? 7 : 0;
    attention.kv_rank = 9;
    attention.nope_dim = 6;
    attention.rope_dim = 4;
    attention.value_head_dim = 5;
    attention.scale = 0.4;
    attention.rope = 0;
    if (attention.q_rank > 0) attention.q_norm.name = "q_a_layernorm";
    attention.kv_norm.name = "kv_a_layernorm";
    layer.mixer = attention;
  }
  return spec;
}

inline Precision test_precision(at::ScalarType type) {
  return {.activation = type, .weight = type, .product = type, .master = type};
}

inline std::unique_ptr<Decoder> tiny_decoder(const DecoderSpec& spec, const DecoderOptions& options = {},
                                             at::ScalarType type = at::kFloat) {
  auto decoder =
      std::make_unique<Decoder>(spec, test_precision(type), single_rank_world(), at::Device(at::kCPU), options);
  initialize_parameters(decoder->units(), 7);
  return decoder;
}

/// Rows of two documents of unequal length and, in row r, 2 r padded positions at the end. No target leaves its
/// document.
inline HostBatch tiny_batch(int64_t rows, int64_t length, int seed = 0) {
  HostBatch batch;
  batch.resize(rows, length);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t end = length - 2 * row;
    const int64_t border = 3 + row;
    for (int64_t t = 0; t < end; ++t) {
      const auto i = static_cast<size_t>(row * length + t);
      batch.inputs[i] = static_cast<int32_t>((row * 31 + t * 17 + seed * 7 + 5) % kTinyVocab);
      batch.inputs_segmentation[i] = t < border ? 1 : 2;
      batch.inputs_position[i] = static_cast<int32_t>(t < border ? t : t - border);
      const bool has_target = t + 1 < end && t + 1 != border;
      batch.targets[i] = static_cast<int32_t>((row * 31 + (t + 1) * 17 + seed * 7 + 5) % kTinyVocab);
      batch.targets_segmentation[i] = has_target ? batch.inputs_segmentation[i] : 0;
    }
  }
  return batch;
}

inline BatchContextPtr tiny_context(const Decoder& decoder, const HostBatch& batch, const RunPosition& position = {}) {
  std::vector<int64_t> instances(static_cast<size_t>(batch.rows));
  std::iota(instances.begin(), instances.end(), 0);
  return make_batch_context(batch, instances, decoder.spec(), decoder.precision(), position,
                            divisors_of(batch, instances, decoder.spec()), decoder.device());
}

/// Largest |a - b| over the largest |b|.
inline double relative_gap(const at::Tensor& a, const at::Tensor& b) {
  const double scale = b.abs().max().item<double>();
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>() / (scale > 0 ? scale : 1.0);
}

}  // namespace ballast::testing
