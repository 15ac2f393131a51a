// SPDX-License-Identifier: Apache-2.0
// Decoders against Hugging Face transformers 5.24.0: logits, loss and gradients of tests/golden/<family>.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "config/config.h"
#include "config/resolve.h"
#include "losses/load_balance.h"
#include "models/decoder.h"
#include "models/hf_layout.h"
#include "models/hf_weights.h"
#include "ops/rms_norm.h"
#include "ops/routing.h"
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

// Experts by their number and the weights in that order, in every layer with experts.
void expect_choices(const std::map<std::string, at::Tensor>& io, const LayerStats& stats) {
  at::Tensor order;
  for (const LayerStat& stat : stats.entries()) {
    const std::string name = "moe.model.layers." + std::to_string(stat.layer) + ".mlp.experts.topk_";
    if (stat.kind == LayerStatKind::kChosenExperts) {
      const auto [sorted, places] = at::sort(stat.value, 1);
      order = places;
      EXPECT_TRUE(at::equal(sorted, io.at(name + "idx").to(at::kLong))) << name;
    } else if (stat.kind == LayerStatKind::kChoiceWeights && io.count(name + "w") > 0) {
      EXPECT_LE(testing::relative_gap(stat.value.gather(1, order), io.at(name + "w")), 1e-5) << name;
    }
  }
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
  LayerStats stats(/*keeps_choices=*/true);
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
  expect_choices(io, stats);

  std::ifstream stream(folder_of(golden.family) + "/grad_stats" + suffix + ".json");
  const nlohmann::json stats_json = nlohmann::json::parse(stream);
  std::map<std::string, const Parameter*> parameters;
  for (const UnitPtr& unit : decoder.units()) {
    for (const Parameter& parameter : unit->parameters()) parameters[parameter.spec.name] = &parameter;
  }
  const std::vector<HfTensor> layout = hf_layout(decoder);
  for (const HfTensor& tensor : layout) {
    const std::string& name = tensor.name;
    if (parameters.count(tensor.parts[0].own_name) == 0) {
      EXPECT_TRUE(stats_json.at(name).is_null()) << name << ": state that is not trained";
      continue;
    }
    const at::Tensor gradient = assemble(tensor, [&](const auto& own) { return parameters.at(own)->gradient; });
    const at::Tensor weight = assemble(tensor, [&](const auto& own) { return parameters.at(own)->master.detach(); });
    const double norm = gradient.to(at::kDouble).norm().item<double>();
    if (stats_json.at(name).is_null()) {
      EXPECT_EQ(norm, 0) << name << ": an expert that no token chose";
      continue;
    }
    const double expected = stats_json.at(name).at(0).get<double>();
    EXPECT_NEAR(norm, expected, kGradientTolerance * expected) << name;
    const double along_weight = (gradient.to(at::kDouble) * weight).sum().item<double>();
    const double weight_norm = weight.to(at::kDouble).norm().item<double>();
    EXPECT_NEAR(along_weight, stats_json.at(name).at(2).get<double>(), kGradientTolerance * expected * weight_norm)
        << name;
    const auto stored = io.find("grad." + name);
    if (stored == io.end()) continue;
    EXPECT_LE(testing::relative_gap(gradient, stored->second), kGradientTolerance) << name;
  }
  EXPECT_EQ(layout.size(), stats_json.size()) << "every tensor of the checkpoint is compared";
}

/// What the router of a layer reads, found without asking the layer: with experts that give zeros the residual stream
/// behind the layer is the one before them.
at::Tensor router_input(const Block& block, const ParameterUnit& unit, const LayerSpec& layer, UnitWeights weights,
                        const at::Tensor& stream, BlockContext& context) {
  at::Tensor norm;
  for (size_t i = 0; i < weights.size(); ++i) {
    const std::string& name = unit.parameters()[i].spec.name;
    if (name.find("mlp.experts.down_proj") != std::string::npos) weights[i] = at::zeros_like(weights[i]);
    if (layer.pre_ffn_norm.exists() && name.ends_with(layer.pre_ffn_norm.name + ".weight")) norm = weights[i];
  }
  const at::Tensor middle = block.forward({stream}, weights, context).stream;
  return norm.defined() ? rms_norm(middle, norm, layer.pre_ffn_norm.form, layer.pre_ffn_norm.epsilon) : middle;
}

// transformers' load_balancing_loss_func pools all layers: E * sum over e of f_e P_e with both taken over the tokens of
// all layers together. With the layers as rows of one group that is the MaxText form.
TEST(GoldenAuxiliaryLoss, OfTransformersIsTheFormOverAllLayersAtOnce) {
  for (const std::string family : {"mixtral", "qwen3_moe", "olmoe", "flex_olmo", "gpt_oss"}) {
    const auto io = read_all(folder_of(family) + "/io.safetensors");
    Decoder decoder(golden_spec(family), Precision{}, single_rank_world(), at::Device(at::kCPU), {});
    load_hf_weights(decoder, folder_of(family));
    const DecoderSpec& spec = decoder.spec();
    const BatchContextPtr batch = testing::tiny_context(decoder, golden_batch(io));
    at::Tensor stream = io.at("embed_out").clone();
    std::vector<at::Tensor> probs, choices;
    RouterSpec router;
    for (size_t i = 0; i < spec.layers.size(); ++i) {
      const auto layer = static_cast<int64_t>(i);
      UnitBuilder builder("model.layers." + std::to_string(i) + ".", 1.0);
      const Block block(spec.layers[i], spec, layer, builder);
      ParameterUnit& unit = *decoder.units()[1 + i];
      const UnitWeights weights = unit.gather();
      BlockPass pass(/*counts=*/false, /*replays=*/false, nullptr);
      BlockContext context{.layer = layer, .batch = *batch, .pass = pass, .buffers = unit.buffers()};
      const at::Tensor x = router_input(block, unit, spec.layers[i], weights, stream, context).flatten(0, 1);
      at::Tensor gate, bias;
      for (size_t place = 0; place < weights.size(); ++place) {
        if (unit.parameters()[place].spec.name.ends_with("mlp.gate.weight")) gate = weights[place];
        if (unit.parameters()[place].spec.name.ends_with("mlp.gate.bias")) bias = weights[place];
      }
      router = std::get<MoeFfnSpec>(spec.layers[i].ffn).router;
      const at::Tensor logits_NE = at::linear(x, gate, bias);
      probs.push_back(router_shares(logits_NE, RouterScore::kSoftmax));
      choices.push_back(choose_experts(logits_NE, router));
      stream = block.forward({stream}, weights, context).stream;
    }
    const auto rows = static_cast<int64_t>(spec.layers.size()) * batch->rows;
    const BalanceGroups groups = make_balance_groups(at::ones({rows, batch->length}, at::kLong),
                                                     at::arange(rows, at::kLong), {.groups_by_row = false});
    const at::Tensor counts_GE = count_choices(at::cat(choices), groups, router.num_experts);
    const LoadBalanceOptions options{.num_experts_per_tok = router.num_experts_per_tok};
    const at::Tensor loss = load_balance_loss(at::cat(probs), counts_GE, groups, options);
    EXPECT_NEAR(loss.item<double>() / io.at("aux_loss").item<double>(), 1.0, 1e-5) << family;
    loss.backward();
    int num_compared = 0;
    for (size_t i = 0; i < spec.layers.size(); ++i) {
      const auto& names = std::get<MoeFfnSpec>(spec.layers[i].ffn).names;
      const auto stored = io.find("grad_aux.model.layers." + std::to_string(i) + "." + names.router + ".weight");
      if (stored == io.end()) continue;
      ++num_compared;
      for (const Parameter& parameter : decoder.units()[1 + i]->parameters()) {
        if (!parameter.spec.name.ends_with("mlp.gate.weight")) continue;
        EXPECT_LE(testing::relative_gap(parameter.gradient, stored->second), 1e-4) << family << " layer " << i;
      }
    }
    EXPECT_EQ(num_compared, 2) << family;
  }
}

std::vector<GoldenCase> all_cases() {
  std::vector<GoldenCase> cases;
  for (const char* family : {"llama", "llama2", "qwen3", "olmo3", "mixtral", "qwen3_moe", "olmoe", "flex_olmo",
                             "gpt_oss", "deepseek_v2", "deepseek_v3"}) {
    for (const bool is_packed : {false, true}) cases.push_back({family, is_packed});
  }
  cases.push_back({"qwen3", true, {.rematerializes = true, .num_vocab_tiling = 4}});
  cases.push_back({"olmo3", false, {.rematerializes = true, .num_vocab_tiling = 2, .vocab_tiling_seq_major = true}});
  cases.push_back({"flex_olmo", true, {.rematerializes = true, .kept = {NamedTensor::kMoeMlpwo}}});
  cases.push_back({"gpt_oss", true, {.rematerializes = true, .kept = {NamedTensor::kMoeMlpwi1}}});
  cases.push_back(
      {"deepseek_v3", true, {.rematerializes = true, .kept = {NamedTensor::kQueryWaProj, NamedTensor::kKvWaProj}}});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Families, Golden, ::testing::ValuesIn(all_cases()), [](const auto& info) {
  return info.param.family + (info.param.is_packed ? "_packed" : "") +
         (info.param.options.rematerializes ? "_remat_tiled" : "");
});

}  // namespace
}  // namespace ballast
