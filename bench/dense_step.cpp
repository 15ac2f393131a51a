// SPDX-License-Identifier: Apache-2.0
// Claim: a training step of a dense model runs near the machine's rate for its matrix products.
//
// The model: 66 million parameters, 8 layers, width 512, SwiGLU 2048, vocabulary 32000, 4 rows of 512 tokens, fp32.
// Beside it, in the same run, the bare products of the same shapes.
#include <ATen/ATen.h>

#include "config/config.h"
#include "config/resolve.h"
#include "metrics/throughput.h"
#include "report.h"
#include "tensor/heap.h"
#include "train/setup.h"

namespace {

using namespace ballast;

/// FLOP/s of the step's products alone: forward, input gradient and weight gradient of every matrix.
double product_rate(const FlopShape& shape) {
  const int64_t tokens = static_cast<int64_t>(shape.rows) * shape.length;
  double flops = 0, seconds = 0;
  for (const auto& [out, in] : std::initializer_list<std::pair<int64_t, int64_t>>{
           {shape.emb_dim, shape.emb_dim}, {4 * shape.emb_dim, shape.emb_dim}, {shape.emb_dim, 4 * shape.emb_dim}}) {
    const at::Tensor x = at::randn({tokens, in}), w = at::randn({out, in}), y = at::randn({tokens, out});
    at::Tensor forward = at::empty({tokens, out}), input = at::empty({tokens, in}), weight = at::empty({out, in});
    seconds += best_time(5, [&] {
                 at::mm_out(forward, x, w.t());
                 at::mm_out(input, y, w);
                 at::mm_out(weight, y.t(), x);
               }).seconds;
    flops += 6.0 * static_cast<double>(tokens * out * in);
  }
  return flops / seconds;
}

HostBatch random_batch(int64_t rows, int64_t length, int64_t vocab_size) {
  HostBatch batch;
  batch.resize(rows, length);
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    batch.inputs[i] = static_cast<int32_t>((i * 7919) % static_cast<size_t>(vocab_size));
    batch.targets[i] = static_cast<int32_t>((i * 104729 + 1) % static_cast<size_t>(vocab_size));
    batch.inputs_position[i] = static_cast<int32_t>(i % static_cast<size_t>(length));
    batch.inputs_segmentation[i] = batch.targets_segmentation[i] = 1;
  }
  return batch;
}

/// Time and memory of a step under some policies. Peaks are above weights, moments and, between steps, nothing else.
nlohmann::ordered_json policy_table(const std::vector<std::string>& keys, const std::vector<std::string>& policies) {
  nlohmann::ordered_json table;
  for (const std::string& policy : policies) {
    std::vector<std::string> pairs = keys;
    pairs.push_back("remat_policy=" + policy);
    const Config config = config_from_pairs(pairs);
    const auto world = single_rank_world();
    const auto decoder = make_decoder(config, world, at::Device(at::kCPU));
    TrainStep step(*decoder, world, step_options(config));
    const HostBatch batch = random_batch(config.global_batch_size_to_load, config.max_target_length, config.vocab_size);
    int64_t index = 1;
    const auto run = [&] {
      StepNumbers numbers = step.accumulate(batch, index++);
      step.update(numbers);
    };
    run();
    const double peak = peak_megabytes(run);
    const BenchTime time = best_time(1, run);
    table[policy] = {{"seconds_per_step", rounded(time.seconds)},
                     {"cpu_seconds_per_step", rounded(time.cpu_seconds)},
                     {"peak_mb_above_weights_and_moments", rounded(peak)}};
  }
  return table;
}

}  // namespace

/// dense_step [--remat_policies] [key=value ...]
int main(int argc, char** argv) {
  keep_freed_memory();  // as `ballast train` does
  PeakMemory::installed();
  std::vector<std::string> keys = {"base_emb_dim=512",           "base_num_query_heads=8",
                                   "base_num_kv_heads=8",        "head_dim=64",
                                   "base_mlp_dim=2048",          "base_num_decoder_layers=8",
                                   "vocab_size=32000",           "max_target_length=512",
                                   "per_device_batch_size=4",    "dtype=float32",
                                   "weight_dtype=float32",       "dataset_type=synthetic",
                                   "enable_checkpointing=false", "hardware=cpu"};
  keys.insert(keys.end(), argv + 1, argv + argc);
  if (std::erase(keys, "--remat_policies") > 0) {
    BenchReport report(argc, argv);
    report["policies"] = policy_table(
        keys, {"none", "minimal_with_context", "minimal", "save_dot_with_context_except_mlp", "save_qkv_proj", "full"});
    return 0;
  }
  keys.insert(keys.begin(), "remat_policy=none");
  const Config config = config_from_pairs(keys);
  const auto world = single_rank_world();
  const auto decoder = make_decoder(config, world, at::Device(at::kCPU));
  set_first_weights(*decoder, config);
  TrainStep step(*decoder, world, step_options(config));
  const HostBatch batch = random_batch(config.global_batch_size_to_load, config.max_target_length, config.vocab_size);
  const FlopShape shape = flop_shape(config, decoder->spec());
  const FlopCount flops = training_flops(shape);
  int64_t index = 1;
  const auto run = [&] {
    StepNumbers numbers = step.accumulate(batch, index++);
    step.update(numbers);
  };

  BenchReport report(argc, argv);
  run();  // makes the optimizer's state, so that the peak is that of a step alone
  const double peak = peak_megabytes(run);
  const double products = product_rate(shape);
  const BenchTime time = best_time(5, run);
  report["parameters"] = count_parameters(decoder->spec());
  report["seconds_per_step"] = rounded(time.seconds);
  report["cpu_seconds_per_step"] = rounded(time.cpu_seconds);
  report["tokens_per_second"] = rounded(tokens_per_device(config) / time.seconds);
  report["step_gflops"] = rounded(flops.total * 1e3 / time.seconds);
  report["product_gflops"] = rounded(products / 1e9);
  report["share_of_product_rate"] = rounded(flops.total * 1e12 / time.seconds / products);
  report["peak_mb_above_weights_and_moments"] = rounded(peak);
}
