// SPDX-License-Identifier: Apache-2.0
// Decoders against Hugging Face transformers 5.24.0: logits, loss and gradients of tests/golden/<family>.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "config/config.h"
#include "config/resolve.h"
#include "models/decoder.h"
#include "models/hf_weights.h"
#include "support/tiny_model.h"
#include "tensor/stored_tensor.h"

namespace ballast {
namespace {

constexpr double kLogitTolerance = 2e-4;     // absolute; HF's own code paths differ by up to 6e-5
constexpr double kLossTolerance = 2e-5;      // absolute
constexpr double kGradientTolerance = 1e-3;  // of a tensor's norm and of its largest entry

struct GoldenCase {
  std::string family;
  bool is_packed = false;
  DecoderOptions options{};
};

std::string folder_of(const std::string& family) {
  return std::string(BALLAST_SOURCE_DIR) + "/tests/golden/" + family;
}

std::map<std::string, at::Tensor> read_all(const std::string& path) {
  const SafetensorsFile file(path);
  std::map<std::string, at::Tensor> tensors;
  for (const StoredTensor& stored : file.tensors()) {
    tensors[stored.name] = borrow_stored(stored, file.bytes(stored.name)).clone();
  }
  return tensors;
}

std::vector<int32_t> ids(const at::Tensor& tensor) {
  const at::Tensor narrow = tensor.to(at::kInt).contiguous();
  return {narrow.const_data_ptr<int32_t>(), narrow.const_data_ptr<int32_t>() + narrow.numel()};
}

HostBatch golden_batch(const std::map<std::string, at::Tensor>& io) {
  const at::Tensor& input = io.at("input_ids");
  HostBatch batch;
  batch.rows = input.size(0);
  batch.length = input.size(1);
  batch.inputs = ids(input);
  batch.inputs_position =
      ids(io.count("position_ids") > 0 ? io.at("position_ids") : at::arange(input.size(1)).expand_as(input));
  at::Tensor segments = io.count("segment_ids") > 0 ? io.at("segment_ids") : at::ones_like(input);
  if (segments.min().item<int64_t>() == 0) segments = segments + 1;  // the fixtures count documents from 0
  batch.inputs_segmentation = ids(segments);
  batch.targets = ids(io.at("labels").clamp_min(0));
  batch.targets_position = batch.inputs_position;
  batch.targets_segmentation = ids(io.at("labels").ge(0));
  return batch;
}

DecoderSpec golden_spec(const std::string& family) {
  ConfigOptions options;
  options.needs_data = false;
  options.environment.emplace();
  return make_decoder_spec(config_from_pairs({"hf_model_path=" + folder_of(family), "dtype=float32"}, options));
}

class Golden : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(Golden, EqualsTransformers) {
  const GoldenCase& golden = GetParam();
  const std::string suffix = golden.is_packed ? "_packed" : "";
  const auto io = read_all(folder_of(golden.family) + "/io" + suffix + ".safetensors");
  Decoder decoder(golden_spec(golden.family), Precision{}, single_rank_world(), at::Device(at::kCPU), golden.options);
  load_hf_weights(decoder, folder_of(golden.family));

  const HostBatch batch = golden_batch(io);
  const BatchContextPtr context = testing::tiny_context(decoder, batch);
  LayerStats stats;
  const HiddenStates hidden = decoder.hidden_states(context, stats, [&](int64_t layer, const at::Tensor& stream) {
    const auto expected = io.find("layer_out." + std::to_string(layer));
    if (expected == io.end()) return;
    EXPECT_LE((stream - expected->second).abs().max().item<double>(), kLogitTolerance) << "layer " << layer;
  });
  const DecoderLoss loss = decoder.loss(hidden, *context, 0);
  EXPECT_LE((decoder.logits(hidden.stream_BTD) - io.at("logits")).abs().max().item<double>(), kLogitTolerance);
  const at::Tensor objective = loss.terms.objective();
  EXPECT_NEAR(objective.item<double>(), io.at("loss").item<double>(), kLossTolerance);
  objective.backward();

  std::ifstream stream(folder_of(golden.family) + "/grad_stats" + suffix + ".json");
  const nlohmann::json stats_json = nlohmann::json::parse(stream);
  size_t compared = 0;
  for (const UnitPtr& unit : decoder.units()) {
    for (const Parameter& parameter : unit->parameters()) {
      const std::string& name = parameter.spec.name;
      ASSERT_TRUE(parameter.gradient.defined()) << name;
      const double norm = parameter.gradient.to(at::kDouble).norm().item<double>();
      const double expected = stats_json.at(name).at(0).get<double>();
      EXPECT_NEAR(norm / expected, 1.0, kGradientTolerance) << name;
      const double along_weight = (parameter.gradient.to(at::kDouble) * parameter.master).sum().item<double>();
      const double weight_norm = parameter.master.to(at::kDouble).norm().item<double>();
      EXPECT_NEAR(along_weight, stats_json.at(name).at(2).get<double>(), kGradientTolerance * expected * weight_norm)
          << name;
      const auto stored = io.find("grad." + name);
      if (stored != io.end()) {
        EXPECT_LE(testing::relative_gap(parameter.gradient, stored->second), kGradientTolerance) << name;
      }
      ++compared;
    }
  }
  EXPECT_EQ(compared, stats_json.size()) << "every tensor of the checkpoint is compared";
}

std::vector<GoldenCase> all_cases() {
  std::vector<GoldenCase> cases;
  for (const char* family : {"llama", "llama2", "qwen3", "olmo3"}) {
    for (const bool is_packed : {false, true}) cases.push_back({family, is_packed});
  }
  cases.push_back({"qwen3", true, {.rematerializes = true, .num_vocab_tiling = 4}});
  cases.push_back({"olmo3", false, {.rematerializes = true, .num_vocab_tiling = 2, .vocab_tiling_seq_major = true}});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Families, Golden, ::testing::ValuesIn(all_cases()), [](const auto& info) {
  return info.param.family + (info.param.is_packed ? "_packed" : "") +
         (info.param.options.rematerializes ? "_remat_tiled" : "");
});

}  // namespace
}  // namespace ballast
