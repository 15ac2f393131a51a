// SPDX-License-Identifier: Apache-2.0
// Claim: forward and backward pass of a mixture of experts run near the machine's rate for its matrix products.
//
// The model: 243 million parameters, 8 layers, width 512, 64 experts of width 256, 8 a token, vocabulary 32000, 4 rows
// of 512 tokens, fp32, no rematerialisation. Beside it, in the same run, the bare products of the same shapes.
#include <ATen/ATen.h>

#include "config/resolve.h"
#include "expert_products.h"
#include "metrics/throughput.h"
#include "report.h"
#include "steps.h"
#include "tensor/heap.h"

namespace {

using namespace ballast;

/// The products of one layer and of the head.
class StepProducts {
 public:
  explicit StepProducts(const Config& config)
      : num_layers_(static_cast<double>(config.num_decoder_layers)),
        experts_(even_choice(config), {config.num_experts, config.emb_dim, config.moe_mlp_dim}, at::kFloat),
        head_(tokens_of(config), config.vocab_size, config.emb_dim) {
    const int64_t tokens = tokens_of(config), width = config.emb_dim;
    for (int i = 0; i < 4; ++i) projections_.emplace_back(tokens, width, width);
    flops_ = 6.0 * static_cast<double>(tokens * width) *
             (num_layers_ * static_cast<double>(4 * width + 3 * config.num_experts_per_tok * config.moe_mlp_dim) +
              static_cast<double>(config.vocab_size));
  }
  /// FLOP/s of a step's products: a layer stands for all of them.
  double rate() {
    const double layer = lap([&] {
                           for (Linear& one : projections_) one();
                           experts_();
                         }).seconds;
    return flops_ / (num_layers_ * layer + lap([&] { head_(); }).seconds);
  }

 private:
  /// A product, the gradient of its input and that of its weight.
  struct Linear {
    Linear(int64_t tokens, int64_t out, int64_t in)
        : x(at::randn({tokens, in})),
          w(at::randn({out, in})),
          y(at::randn({tokens, out})),
          forward(at::empty({tokens, out})),
          input(at::empty({tokens, in})),
          weight(at::empty({out, in})) {}
    void operator()() {
      at::mm_out(forward, x, w.t());
      at::mm_out(input, y, w);
      at::mm_out(weight, y.t(), x);
    }
    at::Tensor x, w, y, forward, input, weight;
  };
  static int64_t tokens_of(const Config& config) { return config.global_batch_size_to_load * config.max_target_length; }
  static at::Tensor even_choice(const Config& config) {
    const at::Tensor share = at::ones({tokens_of(config), config.num_experts});
    return at::multinomial(share, config.num_experts_per_tok, false, at::detail::createCPUGenerator(1));
  }

  double num_layers_, flops_ = 0;
  ExpertProducts experts_;
  std::vector<Linear> projections_;
  Linear head_;
};

}  // namespace

/// moe_step [key=value ...]
int main(int argc, char** argv) {
  keep_freed_memory();  // as `ballast train` does
  PeakMemory::installed();
  std::vector<std::string> keys = {"base_emb_dim=512",
                                   "base_num_query_heads=8",
                                   "base_num_kv_heads=8",
                                   "head_dim=64",
                                   "base_mlp_dim=256",
                                   "base_num_decoder_layers=8",
                                   "num_experts=64",
                                   "num_experts_per_tok=8",
                                   "routed_score_func=softmax",
                                   "norm_topk_prob=true",
                                   "load_balance_loss_weight=0.01",
                                   "vocab_size=32000",
                                   "max_target_length=512",
                                   "per_device_batch_size=4",
                                   "dtype=float32",
                                   "weight_dtype=float32",
                                   "dataset_type=synthetic",
                                   "enable_checkpointing=false",
                                   "hardware=cpu",
                                   "remat_policy=none"};
  keys.insert(keys.end(), argv + 1, argv + argc);
  const Config config = config_from_pairs(keys);
  Steps steps(config);
  const FlopCount flops = training_flops(flop_shape(config, steps.spec()));
  BenchReport report(argc, argv);
  steps.accumulate();
  steps.forget();
  const double peak = peak_megabytes([&] { steps.accumulate(); });
  steps.forget();
  // The rate of a shared machine changes from second to second: passes and products take turns.
  constexpr int kRounds = 7;
  StepProducts products(config);
  products.rate();
  BenchTime time;
  double product_rate = 0;
  std::vector<double> shares;
  for (int round = 0; round < kRounds; ++round) {
    const double before = products.rate();
    const BenchTime one = lap([&] { steps.accumulate(); });
    steps.forget();
    const double after = products.rate();
    keep_best(time, one);
    product_rate = std::max({product_rate, before, after});
    shares.push_back(flops.total * 1e12 / one.seconds / (0.5 * (before + after)));
  }
  report["parameters"] = count_parameters(steps.spec());
  report["seconds_forward_and_backward"] = rounded(time.seconds);
  report["cpu_seconds_forward_and_backward"] = rounded(time.cpu_seconds);
  report["tokens_per_second"] = rounded(tokens_per_device(config) / time.seconds);
  report["step_gflops"] = rounded(flops.total * 1e3 / time.seconds);
  report["product_gflops"] = rounded(product_rate / 1e9);
  report["share_of_product_rate"] = rounded(flops.total * 1e12 / time.seconds / product_rate);
  report["median_share_of_the_rates_around_each_pass"] = rounded(median(shares));
  report["peak_mb_with_gradients"] = rounded(peak);
}
