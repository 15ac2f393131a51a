// SPDX-License-Identifier: Apache-2.0
// One forward (and backward) pass of a Hugging Face folder on given ids: the way to compare with other programs.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "apps/commands.h"
#include "config/config.h"
#include "config/resolve.h"
#include "errors/errors.h"
#include "models/hf_layout.h"
#include "models/hf_weights.h"
#include "tensor/stored_tensor.h"
#include "train/setup.h"

namespace ballast {
namespace {

struct ProbeOptions {
  std::string folder;
  std::string tokens_path;
  std::string out_path;
  std::string weights_path;
  std::string dtype = "float32";
  std::vector<std::string> gradients;  ///< parameter names, or "all"
  bool writes_layers = false;
};

ConfigError usage_error(const std::string& what, const std::string& got) {
  return ConfigError({.where = "probe",
                      .what = what,
                      .got = got,
                      .need = {},
                      .attempt = "ballast probe HF_FOLDER --tokens IN.safetensors --out OUT.safetensors"});
}

ProbeOptions parse_probe(const Arguments& arguments) {
  ProbeOptions options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const auto value = [&]() -> const std::string& {
      if (i + 1 >= arguments.size()) throw usage_error("option without a value", argument);
      return arguments[++i];
    };
    if (argument == "--tokens") {
      options.tokens_path = value();
    } else if (argument == "--out") {
      options.out_path = value();
    } else if (argument == "--weights") {
      options.weights_path = value();
    } else if (argument == "--dtype") {
      options.dtype = value();
    } else if (argument == "--layers") {
      options.writes_layers = true;
    } else if (argument == "--grads") {
      options.gradients.push_back(value());
      while (i + 1 < arguments.size() && !arguments[i + 1].starts_with("--")) options.gradients.push_back(value());
    } else if (argument.starts_with("--") || !options.folder.empty()) {
      throw usage_error("unknown argument", argument);
    } else {
      options.folder = argument;
    }
  }
  if (options.folder.empty()) throw usage_error("no Hugging Face folder is named", {});
  if (options.tokens_path.empty()) throw usage_error("--tokens is missing", {});
  if (options.out_path.empty()) throw usage_error("--out is missing", {});
  return options;
}

// An integer tensor of the token file as [B, T] int64; undefined when the file has none of that name.
at::Tensor read_ids(const SafetensorsFile& file, const std::string& name, at::IntArrayRef shape) {
  if (file.find(name) == nullptr) return {};
  const at::Tensor stored = borrow_stored(file.at(name), file.bytes(name));
  if (!at::isIntegralType(stored.scalar_type(), false) || stored.dim() != 2 ||
      (!shape.empty() && stored.sizes() != shape)) {
    throw DataError({.where = file.path().string() + " " + name,
                     .what = "not a matrix of ids that fits input_ids",
                     .got = file.at(name).description(),
                     .need = "I64 [B, T]",
                     .attempt = {}});
  }
  return stored.to(at::kLong).contiguous();
}

std::vector<int32_t> to_vector(const at::Tensor& ids) {
  const at::Tensor narrow = ids.to(at::kInt).contiguous();
  return {narrow.const_data_ptr<int32_t>(), narrow.const_data_ptr<int32_t>() + narrow.numel()};
}

// Next token inside the same document; -100 where there is none.
at::Tensor default_labels(const at::Tensor& ids, const at::Tensor& segments) {
  at::Tensor labels = at::full_like(ids, -100);
  const int64_t length = ids.size(1);
  if (length < 2) return labels;
  const at::Tensor follows = segments.narrow(1, 1, length - 1)
                                 .eq(segments.narrow(1, 0, length - 1))
                                 .logical_and(segments.narrow(1, 0, length - 1).ne(0));
  labels.narrow(1, 0, length - 1).copy_(at::where(follows, ids.narrow(1, 1, length - 1), -100));
  return labels;
}

HostBatch read_batch(const std::string& path, int64_t vocab_size) {
  const SafetensorsFile file(path, ErrorKind::kData);
  const at::Tensor ids = read_ids(file, "input_ids", {});
  if (!ids.defined()) {
    throw DataError(
        {.where = path, .what = "no tensor input_ids", .got = {}, .need = "input_ids I64 [B, T]", .attempt = {}});
  }
  at::Tensor segments = read_ids(file, "segment_ids", ids.sizes());
  at::Tensor labels = read_ids(file, "labels", ids.sizes());
  at::Tensor positions = read_ids(file, "position_ids", ids.sizes());
  if (!segments.defined()) segments = at::ones_like(ids);
  if (!labels.defined()) labels = default_labels(ids, segments);
  if (!positions.defined()) {
    // Positions restart where a document starts.
    const at::Tensor index = at::arange(ids.size(1), at::kLong).expand_as(ids);
    const at::Tensor before = at::constant_pad_nd(segments.narrow(1, 0, ids.size(1) - 1), {1, 0}, -1);
    positions = index - std::get<0>(at::where(segments.ne(before), index, 0).cummax(1));
  }
  HostBatch batch;
  batch.rows = ids.size(0);
  batch.length = ids.size(1);
  batch.inputs = to_vector(ids);
  batch.inputs_position = to_vector(positions);
  batch.inputs_segmentation = to_vector(segments);
  batch.targets = to_vector(labels.clamp_min(0));
  batch.targets_position = batch.inputs_position;
  batch.targets_segmentation = to_vector(labels.ge(0));
  batch.check(vocab_size, path);
  return batch;
}

struct Output {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  void add(const std::string& name, const at::Tensor& tensor, at::ScalarType type = at::kFloat) {
    tensors.emplace_back(name, tensor.detach().to(at::kCPU, type).contiguous());
  }
};

// Chosen experts of each token by their number, and the weights in that order.
void add_choices(const LayerStats& stats, bool with_weights, Output& output) {
  std::map<int64_t, at::Tensor> order;
  for (const LayerStat& stat : stats.entries()) {
    const std::string prefix = "moe." + std::to_string(stat.layer) + ".";
    if (stat.kind == LayerStatKind::kChosenExperts) {
      const auto [sorted, places] = at::sort(stat.value, 1);
      order[stat.layer] = places;
      output.add(prefix + "topk_idx", sorted, at::kInt);
    } else if (stat.kind == LayerStatKind::kChoiceWeights && with_weights) {
      output.add(prefix + "topk_w", stat.value.gather(1, order.at(stat.layer)));
    }
  }
}

void add_gradients(const Decoder& decoder, const ProbeOptions& options, Output& output) {
  std::set<std::string> asked(options.gradients.begin(), options.gradients.end());
  const bool takes_all = asked.erase("all") > 0;
  std::map<std::string, const Parameter*> parameters;
  for (const UnitPtr& unit : decoder.units()) {
    for (const Parameter& parameter : unit->parameters()) parameters.emplace(parameter.spec.name, &parameter);
  }
  const auto gradient_of = [&](const std::string& name) {
    const Parameter& parameter = *parameters.at(name);
    return parameter.gradient.defined() ? parameter.gradient : at::zeros_like(parameter.master);
  };
  for (const HfTensor& tensor : hf_layout(decoder)) {
    if (!parameters.contains(tensor.parts[0].own_name)) continue;  // a buffer
    if (asked.erase(tensor.name) == 0 && !takes_all) continue;
    output.add("grad." + tensor.name, assemble(tensor, gradient_of));
  }
  if (!asked.empty()) throw usage_error("--grads names no parameter of this model", *asked.begin());
}

}  // namespace

int run_probe(const Arguments& arguments) {
  const ProbeOptions options = parse_probe(arguments);
  ConfigOptions config_options;
  config_options.needs_data = false;
  config_options.environment.emplace();
  const Config config = config_from_pairs(
      {"hf_model_path=" + options.folder, "dtype=" + options.dtype, "remat_policy=none", "enable_checkpointing=false"},
      config_options);
  const DecoderSpec spec = make_decoder_spec(config);
  const HostBatch batch = read_batch(options.tokens_path, spec.vocab_size);
  const auto world = single_rank_world();
  const at::Device device(at::kCPU);
  Decoder decoder(spec, Precision::resolve(options.dtype, "float32", device), world, device, {});
  load_hf_weights(decoder, options.folder, options.weights_path);

  std::vector<int64_t> instances(static_cast<size_t>(batch.rows));
  std::iota(instances.begin(), instances.end(), 0);
  const BatchContextPtr context =
      make_batch_context(batch, instances, spec, decoder.precision(), {}, divisors_of(batch, instances, spec), device);
  const at::AutoGradMode grad_mode(!options.gradients.empty());
  Output output;
  LayerStats stats(/*keeps_choices=*/true);
  const HiddenStates hidden = decoder.hidden_states(context, stats, [&](int64_t layer, const at::Tensor& stream) {
    if (options.writes_layers) output.add("layer_out." + std::to_string(layer), stream);
  });
  const DecoderLoss loss = decoder.loss(hidden, *context, /*z_loss_multiplier=*/0);
  output.add("logits", decoder.logits(hidden.stream_BTD));
  add_choices(stats, options.writes_layers, output);
  output.add("token_loss", loss.ce_N.view({batch.rows, batch.length}));
  const at::Tensor objective = loss.terms.objective();
  output.add("loss", objective);
  if (!options.gradients.empty()) {
    objective.backward();
    add_gradients(decoder, options, output);
  }
  std::vector<TensorBytes> stored;
  for (const auto& [name, tensor] : output.tensors) stored.push_back(store_tensor(name, tensor));
  write_safetensors(options.out_path, stored);
  return 0;
}

}  // namespace ballast
