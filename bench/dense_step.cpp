// SPDX-License-Identifier: Apache-2.0
// Claim: a training step of a dense model runs near the machine's rate for its matrix products.
//
// The model: 66 million parameters, 8 layers, width 512, SwiGLU 2048, vocabulary 32000, 4 rows of 512 tokens, fp32.
// Beside it, in the same run, the bare products of the same shapes.
#include <ATen/ATen.h>

#include "config/resolve.h"
#include "metrics/throughput.h"
#include "report.h"
#include "steps.h"
#include "tensor/heap.h"

namespace {

using namespace ballast;

/// The step's products alone: forward, input gradient and weight gradient of every kind of matrix.
class Products {
 public:
  explicit Products(const FlopShape& shape) {
    const int64_t tokens = static_cast<int64_t>(shape.rows) * shape.length;
    const int64_t width = shape.emb_dim, hidden = 4 * shape.emb_dim;
    for (const auto& [out, in] : {std::pair{width, width}, {hidden, width}, {width, hidden}}) {
      operands_.push_back({at::randn({tokens, in}), at::randn({out, in}), at::randn({tokens, out}),
                           at::empty({tokens, out}), at::empty({tokens, in}), at::empty({out, in})});
      flops_ += 6.0 * static_cast<double>(tokens * out * in);
    }
  }
  /// FLOP/s of one pass over all of them, by the clock.
  double rate() {
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t cpu_start = std::clock();
    for (Operands& o : operands_) {
      at::mm_out(o.forward, o.x, o.w.t());
      at::mm_out(o.input, o.y, o.w);
      at::mm_out(o.weight, o.y.t(), o.x);
    }
    cpu_rate_ = std::max(cpu_rate_, flops_ * CLOCKS_PER_SEC / static_cast<double>(std::clock() - cpu_start));
    return flops_ / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  /// FLOP a second of CPU time, the best pass so far.
  double cpu_rate() const { return cpu_rate_; }

 private:
  struct Operands {
    at::Tensor x, w, y, forward, input, weight;
  };
  std::vector<Operands> operands_;
  double flops_ = 0, cpu_rate_ = 0;
};

/// Time and memory of a step under some policies. Peaks are above weights, moments and, between steps, nothing else.
nlohmann::ordered_json policy_table(const std::vector<std::string>& keys, const std::vector<std::string>& policies) {
  nlohmann::ordered_json table;
  for (const std::string& policy : policies) {
    std::vector<std::string> pairs = keys;
    pairs.push_back("remat_policy=" + policy);
    const Config config = config_from_pairs(pairs);
    Steps steps(config);
    const auto run = [&] { steps(); };
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
  Steps steps(config);
  const auto run = [&] { steps(); };
  const FlopShape shape = flop_shape(config, steps.spec());
  const FlopCount flops = training_flops(shape);

  BenchReport report(argc, argv);
  run();  // makes the optimizer's state, so that the peak is that of a step alone
  const double peak = peak_megabytes(run);
  // The rate of a shared machine changes from second to second: step and products take turns.
  constexpr int kRounds = 9;
  Products products(shape);
  products.rate();
  BenchTime time;
  double product_rate = 0;
  std::vector<double> shares;
  for (int round = 0; round < kRounds; ++round) {
    const double before = products.rate();
    const BenchTime one = lap(run);
    const double after = products.rate();
    keep_best(time, one);
    product_rate = std::max({product_rate, before, after});
    shares.push_back(flops.total * 1e12 / one.seconds / (0.5 * (before + after)));
  }
  report["parameters"] = count_parameters(steps.spec());
  report["seconds_per_step"] = rounded(time.seconds);
  report["cpu_seconds_per_step"] = rounded(time.cpu_seconds);
  report["tokens_per_second"] = rounded(tokens_per_device(config) / time.seconds);
  report["step_gflops"] = rounded(flops.total * 1e3 / time.seconds);
  report["product_gflops"] = rounded(product_rate / 1e9);
  report["share_of_product_rate"] = rounded(flops.total * 1e12 / time.seconds / product_rate);
  report["share_of_product_rate_by_cpu_time"] = rounded(flops.total * 1e12 / time.cpu_seconds / products.cpu_rate());
  report["median_share_of_the_rates_around_each_step"] = rounded(median(shares));
  report["peak_mb_above_weights_and_moments"] = rounded(peak);
}
