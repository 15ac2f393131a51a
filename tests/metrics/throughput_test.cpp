// SPDX-License-Identifier: Apache-2.0
// Expected counts: MaxText's formulas evaluated in double precision outside this program. The one of DeepSeek V2 16B
// (764.67 TFLOP, 94.54 % and 5.46 %) also stands in MaxText's documentation.
#include "metrics/throughput.h"

#include <gtest/gtest.h>

#include "config/config.h"
#include "config/resolve.h"
#include "spec/decoder_spec.h"

namespace ballast {
namespace {

struct Expected {
  double total, weights_percent, attention_percent;
};

void expect_flops(const FlopShape& shape, const Expected& expected) {
  const FlopCount count = training_flops(shape);
  EXPECT_NEAR(count.total, expected.total, 5.1e-5);
  EXPECT_NEAR(100 * count.weights / count.total, expected.weights_percent, 5.1e-3);
  EXPECT_NEAR(100 * count.attention / count.total, expected.attention_percent, 5.1e-3);
}

FlopShape shape_of(double rows, int64_t length, int64_t emb_dim, int64_t vocab_size) {
  FlopShape shape;
  shape.rows = rows;
  shape.length = length;
  shape.emb_dim = emb_dim;
  shape.vocab_size = vocab_size;
  return shape;
}

/// A layer of full attention with equal score and value widths.
LayerFlops full_layer(double active_weights, int64_t heads, int64_t head_dim) {
  return {active_weights, {{static_cast<double>(2 * heads * head_dim), 0, 0}}, 0};
}

double expert_weights(int64_t emb_dim, int64_t mlp_dim, int experts_per_token, int64_t num_experts) {
  return static_cast<double>(emb_dim * num_experts) + experts_per_token * ffn_weights(emb_dim, mlp_dim, 2);
}

TEST(TrainingFlops, Llama2With7B) {
  FlopShape shape = shape_of(4, 2048, 4096, 32000);
  const double weights = grouped_attention_weights(4096, 32, 32, 128, 2) + ffn_weights(4096, 11008, 2);
  shape.layers.assign(32, full_layer(weights, 32, 128));
  expect_flops(shape, {337.9452, 96.10, 3.90});
}

TEST(TrainingFlops, Llama31With8B) {
  FlopShape shape = shape_of(1, 8192, 4096, 128256);
  const double weights = grouped_attention_weights(4096, 32, 8, 128, 2) + ffn_weights(4096, 14336, 2);
  shape.layers.assign(32, full_layer(weights, 32, 128));
  expect_flops(shape, {421.6455, 87.48, 12.52});
}

TEST(TrainingFlops, Mixtral8x7B) {
  FlopShape shape = shape_of(1, 2048, 4096, 32000);
  const double weights = grouped_attention_weights(4096, 32, 8, 128, 2) + expert_weights(4096, 14336, 2, 8);
  shape.layers.assign(32, full_layer(weights, 32, 128));
  expect_flops(shape, {159.9532, 97.94, 2.06});
}

// Every sixth layer is global, with its own head width and a shared key/value projection.
void add_gemma4_layers(FlopShape& shape, int count, int64_t heads, int64_t kv_heads, int64_t global_kv_heads,
                       double ffn) {
  for (int layer = 1; layer <= count; ++layer) {
    if (layer % 6 == 0) {
      const double weights = grouped_attention_weights(shape.emb_dim, heads, global_kv_heads, 512, 1);
      shape.layers.push_back(full_layer(weights + ffn, heads, 512));
    } else {
      const double weights = grouped_attention_weights(shape.emb_dim, heads, kv_heads, 256, 2);
      LayerFlops local = full_layer(weights + ffn, heads, 256);
      local.pairs[0].window = 1024;
      shape.layers.push_back(local);
    }
  }
}

TEST(TrainingFlops, Gemma4With26B) {
  FlopShape shape = shape_of(1, 2048, 2816, 262144);
  add_gemma4_layers(shape, 30, 16, 8, 2, ffn_weights(2816, 2112, 2) + expert_weights(2816, 704, 8, 128));
  expect_flops(shape, {49.9262, 94.06, 5.94});
}

TEST(TrainingFlops, Gemma4With31B) {
  FlopShape shape = shape_of(1, 2048, 5376, 262144);
  add_gemma4_layers(shape, 60, 32, 16, 4, ffn_weights(5376, 21504, 2));
  expect_flops(shape, {389.0467, 96.95, 3.05});
}

// Every fourth layer sees the whole row, the others stay inside chunks of 8192. `moe_step` 2: every other layer dense.
FlopShape llama4(int64_t length, int64_t dense_mlp_dim, int64_t num_experts, int moe_step) {
  FlopShape shape = shape_of(1, length, 5120, 202048);
  const double attention = grouped_attention_weights(5120, 40, 8, 128, 2);
  const double experts = expert_weights(5120, 8192, 1 + 1, num_experts);  // one routed, one shared
  for (int layer = 1; layer <= 48; ++layer) {
    const double ffn = layer % moe_step == 0 ? experts : ffn_weights(5120, dense_mlp_dim, 2);
    shape.layers.push_back(full_layer(attention + ffn, 40, 128));
    if (layer % 4 != 0) shape.layers.back().pairs[0].chunk = 8192;
  }
  return shape;
}

TEST(TrainingFlops, Llama4With16Experts) {
  expect_flops(llama4(2048, 8192, 16, 1), {204.4874, 96.98, 3.02});
}

TEST(TrainingFlops, Llama4With128Experts) {
  expect_flops(llama4(16384, 16384, 128, 2), {1834.9711, 86.52, 13.48});
}

// Latent attention without a query rank: q 2048 -> 16*192, kv 2048 -> 512+64 and 512 -> 16*(128+128), output 16*128.
TEST(TrainingFlops, DeepSeek2With16B) {
  FlopShape shape = shape_of(24, 2048, 2048, 102400);
  const double attention = 2048.0 * 16 * 192 + 2048.0 * (512 + 64) + 512.0 * 16 * 256 + 2048.0 * 16 * 128;
  const double experts = expert_weights(2048, 1408, 6 + 2, 64);  // six routed, two shared
  for (int layer = 0; layer < 27; ++layer) {
    const double ffn = layer == 0 ? ffn_weights(2048, 10944, 2) : experts;
    shape.layers.push_back({attention + ffn, {{16.0 * (192 + 128), 0, 0}}, 0});
  }
  expect_flops(shape, {764.6674, 94.54, 5.46});
}

// By hand, one layer, 2 rows of 4 positions, emb_dim 3, vocabulary 5, 7 weights, score width 2, 6 state products:
//   weights   3 * 2 * 8 * (7 + 15) = 1056
//   attention 3 * 2 * (2 * 2 * 8 + 8 * 6) = 480
TEST(TrainingFlops, CountsByHand) {
  FlopShape shape = shape_of(2, 4, 3, 5);
  shape.layers = {{7, {{2, 0, 0}}, 6}};
  FlopCount count = training_flops(shape);
  EXPECT_NEAR(count.weights * 1e12, 1056, 1e-9);
  EXPECT_NEAR(count.attention * 1e12, 480, 1e-9);
  shape.accumulation_steps = 3;
  EXPECT_NEAR(training_flops(shape).total * 1e12, 3 * 1536, 1e-9);
  shape.has_reference_forward = true;
  EXPECT_NEAR(training_flops(shape).total * 1e12, 4 * 1536, 1e-9);
}

// Windows as wide as the row and chunks that hold it cost what full attention costs; a chunk of 3 cuts 8 = 3 + 3 + 2.
TEST(TrainingFlops, WindowsAndChunksLimitThePairs) {
  FlopShape shape = shape_of(1, 8, 1, 0);
  const auto pairs = [&](PairCost cost) {
    shape.layers = {{0, {cost}, 0}};
    return training_flops(shape).attention * 1e12 / 6;
  };
  EXPECT_NEAR(pairs({1, 0, 0}), 32, 1e-9);
  EXPECT_NEAR(pairs({1, 8, 0}), 32, 1e-9);
  EXPECT_NEAR(pairs({1, 100, 0}), 32, 1e-9);
  EXPECT_NEAR(pairs({1, 2, 0}), 14, 1e-9);
  EXPECT_NEAR(pairs({1, 0, 8}), 32, 1e-9);
  EXPECT_NEAR(pairs({1, 0, 3}), 11, 1e-9);
}

Config config_of(const std::string& model, const std::string& rows, const std::string& length) {
  ConfigOptions options;
  options.configs_folder = std::string(BALLAST_SOURCE_DIR) + "/configs";
  options.environment.emplace();
  options.needs_data = false;
  return config_from_pairs(
      {"run_name=r", "model_name=" + model, "per_device_batch_size=" + rows, "max_target_length=" + length}, options);
}

TEST(FlopShapeOfAModel, AgreesForTheShippedLlamaFiles) {
  const Config llama2 = config_of("llama2-7b", "4", "2048");
  expect_flops(flop_shape(llama2, make_decoder_spec(llama2)), {337.9452, 96.10, 3.90});
  const Config llama3 = config_of("llama3.1-8b", "1", "8192");
  expect_flops(flop_shape(llama3, make_decoder_spec(llama3)), {421.6455, 87.48, 12.52});
}

// gpt-oss 20B, half of its layers within a window of 128 (T = 8192, TFLOP of a forward):
//   a layer   router 2 * 8192 * 2880 * 32, experts 4 * 6 * 8192 * 2880 * 2880,
//             projections 2 * 8192 * 2880 * 64 * (64 + 2 * 8 + 64)
//   head      2 * 8192 * 2880 * 201088
//   pairs     full 2 * 8192^2 * 64 * 64, sliding 4 * (8192 * 128 - 128^2 / 2) * 64 * 64; twelve layers each
TEST(FlopShapeOfAModel, AgreesForTheShippedFilesWithExperts) {
  const Config mixtral = config_of("mixtral-8x7b", "1", "2048");
  expect_flops(flop_shape(mixtral, make_decoder_spec(mixtral)), {159.9532, 97.94, 2.06});
  const Config qwen3 = config_of("qwen3-30b-a3b", "1", "4096");
  expect_flops(flop_shape(qwen3, make_decoder_spec(qwen3)), {94.5430, 79.07, 20.93});
  const Config gpt_oss = config_of("gpt-oss-20b", "1", "8192");
  expect_flops(flop_shape(gpt_oss, make_decoder_spec(gpt_oss)), {197.7031, 89.68, 10.32});
  const Config deepseek2 = config_of("deepseek2-16b", "24", "2048");
  expect_flops(flop_shape(deepseek2, make_decoder_spec(deepseek2)), {764.6674, 94.54, 5.46});
}

// D 4, two heads of 3 + 2 channels, values 6 wide, latents 5 and 7: 4 * 5 + 5 * 10, 4 * 9 + 7 * 18, 12 * 4; scores
// and values of 2 * (5 + 6) channels a pair.
TEST(FlopShapeOfAModel, CountsALatentOfTheQueries) {
  MlaSpec attention;
  attention.num_heads = 2;
  attention.nope_dim = 3;
  attention.rope_dim = 2;
  attention.value_head_dim = 6;
  attention.q_rank = 5;
  attention.kv_rank = 7;
  DecoderSpec spec;
  spec.emb_dim = 4;
  spec.vocab_size = 1;
  spec.layers.resize(1);
  spec.layers[0].mixer = attention;
  const FlopShape shape = flop_shape(Config(), spec);
  EXPECT_EQ(shape.layers[0].active_weights, 4 * 5 + 5 * 10 + 4 * 9 + 7 * 18 + 12 * 4);
  ASSERT_EQ(shape.layers[0].pairs.size(), 1);
  EXPECT_EQ(shape.layers[0].pairs[0].width, 22);
  EXPECT_EQ(shape.layers[0].pairs[0].window, 0);
}

// By hand, D 4: router 4 * 8; two experts of 3 * 2 * 6 between projections 2 * 4 * 2; shared 3 * 4 * 5 and its gate 4.
TEST(FlopShapeOfAModel, CountsTheChosenExperts) {
  MoeFfnSpec ffn;
  ffn.router.num_experts = 8;
  ffn.router.num_experts_per_tok = 2;
  ffn.mlp_dim = 6;
  ffn.latent_dim = 2;
  ffn.shared_dim = 5;
  ffn.has_shared_gate = true;
  DecoderSpec spec;
  spec.emb_dim = 4;
  spec.vocab_size = 1;
  spec.layers.resize(1);
  spec.layers[0].ffn = ffn;
  const FlopShape shape = flop_shape(Config(), spec);
  EXPECT_EQ(shape.layers.at(0).active_weights, 32 + 2 * 36 + 16 + 60 + 4);
}

TEST(FlopShapeOfAModel, DescribesEachLayerByItsOwnSpec) {
  AttentionSpec attention;
  attention.num_query_heads = 4;
  attention.num_kv_heads = 2;
  attention.head_dim = 8;
  attention.value_head_dim = 6;
  DecoderSpec spec;
  spec.emb_dim = 16;
  spec.vocab_size = 100;
  LayerSpec layer;
  layer.mixer = attention;
  layer.ffn = DenseFfnSpec{.mlp_dim = 10, .activation = Activation::kGelu, .is_gated = false, .has_bias = false};
  spec.layers.push_back(layer);
  std::get<AttentionSpec>(layer.mixer).sliding_window = 3;
  std::get<DenseFfnSpec>(layer.ffn).is_gated = true;
  spec.layers.push_back(layer);
  Config config;
  config.per_device_batch_size = 0.5;
  config.max_target_length = 32;
  config.gradient_accumulation_steps = 2;
  const FlopShape shape = flop_shape(config, spec);
  EXPECT_EQ(shape.rows, 0.5);
  EXPECT_EQ(shape.length, 32);
  EXPECT_EQ(shape.accumulation_steps, 2);
  ASSERT_EQ(shape.layers.size(), 2u);
  // q 4*8, k 2*8, v 2*6, output 4*6, times 16; up and down 2*10 times 16, with a gate 3*10.
  EXPECT_EQ(shape.layers[0].active_weights, 16 * (32 + 16 + 12 + 24) + 16 * 20);
  EXPECT_EQ(shape.layers[1].active_weights, 16 * (32 + 16 + 12 + 24) + 16 * 30);
  EXPECT_EQ(shape.layers[0].pairs, (std::vector<PairCost>{{4 * (8 + 6), 0, 0}}));
  EXPECT_EQ(shape.layers[1].pairs, (std::vector<PairCost>{{4 * (8 + 6), 3, 0}}));
  EXPECT_EQ(tokens_per_device(config), 32);
}

TEST(PeakTflops, KnowsDevicesByTheirDriversNames) {
  EXPECT_EQ(peak_tflops_of("NVIDIA H200"), 989.0);
  EXPECT_EQ(peak_tflops_of("NVIDIA H100 80GB HBM3"), 989.0);
  EXPECT_EQ(peak_tflops_of("NVIDIA H100 PCIe"), 756.0);
  EXPECT_EQ(peak_tflops_of("NVIDIA A100-SXM4-80GB"), 312.0);
  EXPECT_EQ(peak_tflops_of("NVIDIA A10"), 125.0);
  EXPECT_EQ(peak_tflops_of("NVIDIA L4"), 121.0);
  EXPECT_EQ(peak_tflops_of("NVIDIA GeForce RTX 4090"), 165.2);
}

TEST(PeakTflops, SaysNothingOfOtherDevices) {
  EXPECT_FALSE(peak_tflops_of("").has_value());
  EXPECT_FALSE(peak_tflops_of("AMD EPYC 7763").has_value());
  EXPECT_FALSE(peak_tflops_of("NVIDIA RTX A4000").has_value());  // A4000 is not A40
}

TEST(PeakTflops, TakesTheConfiguredPeakFirst) {
  Config config;
  EXPECT_EQ(peak_tflops(config, "NVIDIA H200"), 989.0);
  config.peak_tflops_per_device = 700;
  EXPECT_EQ(peak_tflops(config, "NVIDIA H200"), 700.0);
  EXPECT_EQ(peak_tflops(config, "cpu"), 700.0);
}

TEST(PeakLine, NamesThePeakAndItsSource) {
  Config config;
  EXPECT_EQ(peak_line(config, "AMD EPYC 7763"), std::nullopt);
  EXPECT_EQ(peak_line(config, "NVIDIA A40"),
            "peak: 149.7 TFLOP/s a device (dense bf16 of NVIDIA A40 by its data sheet)");
  config.peak_tflops_per_device = 700;
  config.set_origin("peak_tflops_per_device", "run.yml:3");
  EXPECT_EQ(peak_line(config, "NVIDIA A40"), "peak: 700 TFLOP/s a device (peak_tflops_per_device, run.yml:3)");
}

}  // namespace
}  // namespace ballast
