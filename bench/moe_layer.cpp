// SPDX-License-Identifier: Apache-2.0
// Claim: a layer of routed experts runs near the machine's rate for its matrix products, and several times faster than
// all experts for all tokens.
//
// 2048 tokens of width 512, 64 experts of width 256, 8 chosen, fp32 or bf16, forward and backward with all gradients.
// Choices are even, or skewed: the probability of expert e is 1 / (e + 1) of that of expert 0. Beside it, in the same
// run, the bare products of the same shapes on the same number of threads, and all experts for all tokens as three wide
// products.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "expert_products.h"
#include "ops/activation.h"
#include "ops/expert_ffn.h"
#include "ops/linear.h"
#include "report.h"
#include "tensor/heap.h"

namespace {

using namespace ballast;

constexpr int64_t kTokens = 2048, kWidth = 512, kExperts = 64, kChosen = 8, kExpertWidth = 256;
constexpr double kFlops = 18.0 * kTokens * kChosen * kWidth * kExpertWidth;  // 3 products, each also twice in backward

at::Tensor choose(bool is_skewed) {
  const at::Tensor rank = at::arange(1, kExperts + 1, at::kFloat);
  const at::Tensor share = is_skewed ? rank.reciprocal() : at::ones_like(rank);
  return at::multinomial(share.expand({kTokens, kExperts}), kChosen, false, at::detail::createCPUGenerator(1));
}

/// The layer with its leaves.
class Layer {
 public:
  Layer(at::Tensor expert_NK, at::ScalarType type)
      : expert_NK_(std::move(expert_NK)),
        leaves_{at::randn({kTokens, kWidth}).to(type), at::rand({kTokens, kChosen}),
                at::randn({kExperts, kExpertWidth, kWidth}).mul_(0.04).to(type),
                at::randn({kExperts, kExpertWidth, kWidth}).mul_(0.04).to(type),
                at::randn({kExperts, kWidth, kExpertWidth}).mul_(0.06).to(type)},
        d_y_(at::randn({kTokens, kWidth}).to(type)) {
    for (at::Tensor& leaf : leaves_) leaf.set_requires_grad(true);
  }
  void chosen_experts() const {
    const ExpertPlan plan = plan_experts(expert_NK_, kExperts);
    const ExpertWeights weights{leaves_[2], leaves_[3], leaves_[4], {}, {}, {}};
    differentiate(expert_ffn(leaves_[0], leaves_[1], plan, weights, {}).y_ND);
  }
  /// Choices that are not made have the routing weight 0.
  void all_experts() const {
    const int64_t rows = kExperts * kExpertWidth;
    const at::Tensor weight_NE =
        at::zeros({kTokens, kExperts}).scatter(1, expert_NK_, leaves_[1]).to(d_y_.scalar_type());
    const auto inner =
        linear_group(leaves_[0], {{leaves_[2].view({rows, kWidth}), {}}, {leaves_[3].view({rows, kWidth}), {}}});
    const at::Tensor product = gated_activation(inner[0], inner[1], Activation::kSilu).view({kTokens, kExperts, -1});
    const at::Tensor weighted = (product * weight_NE.unsqueeze(2)).view({kTokens, rows});
    const at::Tensor down = leaves_[4].transpose(1, 2).reshape({rows, kWidth}).t();
    differentiate(linear(weighted, down, at::Tensor()));
  }

 private:
  void differentiate(const at::Tensor& y) const { torch::autograd::grad({y}, leaves_, {d_y_}); }

  at::Tensor expert_NK_;
  std::vector<at::Tensor> leaves_;
  at::Tensor d_y_;
};

/// The rate of a shared machine changes from second to second: layer and products take turns.
nlohmann::ordered_json measure(bool is_skewed, at::ScalarType type, bool has_all_experts) {
  constexpr int kRounds = 15;
  const at::Tensor expert_NK = choose(is_skewed);
  const Layer layer(expert_NK, type);
  const ExpertProducts products(expert_NK, {kExperts, kWidth, kExpertWidth}, type);
  const double peak = peak_megabytes([&] { layer.chosen_experts(); });
  products();
  std::vector<double> seconds, shares;
  BenchTime best, best_products;
  for (int round = 0; round < kRounds; ++round) {
    const BenchTime before = lap([&] { products(); });
    const BenchTime middle = lap([&] { layer.chosen_experts(); });
    const BenchTime after = lap([&] { products(); });
    keep_best(best, middle);
    keep_best(best_products, before);
    keep_best(best_products, after);
    seconds.push_back(middle.seconds);
    shares.push_back(0.5 * (before.seconds + after.seconds) / middle.seconds);
  }
  nlohmann::ordered_json figures = {
      {"seconds", rounded(best.seconds)},
      {"median_seconds", rounded(median(seconds))},
      {"cpu_seconds", rounded(best.cpu_seconds)},
      {"layer_gflops", rounded(kFlops / best.seconds / 1e9)},
      {"product_gflops", rounded(kFlops / best_products.seconds / 1e9)},
      {"share_of_product_rate", rounded(best_products.seconds / best.seconds)},
      {"share_of_product_rate_by_cpu_time", rounded(best_products.cpu_seconds / best.cpu_seconds)},
      {"median_share_of_the_rates_around_each_run", rounded(median(shares))},
      {"peak_mb_with_gradients", rounded(peak)}};
  if (has_all_experts) {
    const BenchTime all = best_time(3, [&] { layer.all_experts(); });
    figures["all_experts_seconds"] = rounded(all.seconds);
    figures["times_faster_than_all_experts"] = rounded(all.seconds / best.seconds);
  }
  return figures;
}

}  // namespace

/// moe_layer [float32|bfloat16]
int main(int argc, char** argv) {
  const at::ScalarType type = argc > 1 && std::string(argv[1]) == "bfloat16" ? at::kBFloat16 : at::kFloat;
  keep_freed_memory();  // as `ballast train` does
  PeakMemory::installed();
  BenchReport report(argc, argv);
  report["even"] = measure(/*is_skewed=*/false, type, /*has_all_experts=*/true);
  report["skewed"] = measure(/*is_skewed=*/true, type, /*has_all_experts=*/false);
}
