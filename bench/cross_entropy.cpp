// SPDX-License-Identifier: Apache-2.0
// Claim: fused projection + cross-entropy costs little more than its three products and never holds all logits.
#include "ops/cross_entropy.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "report.h"

/// cross_entropy [tokens] [width] [vocab]
int main(int argc, char** argv) {
  using namespace ballast;
  const auto argument = [&](int index, int64_t fallback) { return argc > index ? std::atol(argv[index]) : fallback; };
  const int64_t num_tokens = argument(1, 2048), width = argument(2, 512), vocab = argument(3, 32000);
  PeakMemory::installed();
  const at::Tensor hidden = at::randn({num_tokens, width}).set_requires_grad(true);
  const at::Tensor head = at::randn({vocab, width}).mul_(0.02).set_requires_grad(true);
  const at::Tensor target = at::randint(vocab, {num_tokens}, at::kLong);
  const at::Tensor weight = at::full({num_tokens}, 1.0 / static_cast<double>(num_tokens));

  BenchReport report(argc, argv);
  report["tokens"] = num_tokens;
  report["width"] = width;
  report["vocab"] = vocab;
  const auto measure = [&](const std::string& name, const std::function<void()>& run) {
    const double peak = peak_megabytes(run);
    const BenchTime time = best_time(5, run);
    report[name.c_str()] = {
        {"seconds", rounded(time.seconds)}, {"cpu_seconds", rounded(time.cpu_seconds)}, {"peak_mb", rounded(peak)}};
  };
  measure("its three products alone", [&] {
    const at::NoGradGuard no_grad;
    const at::Tensor logits = at::mm(hidden, head.t());
    at::mm(logits, head);
    at::mm(logits.t(), hidden);
  });
  measure("plain linear + cross_entropy",
          [&] { torch::autograd::grad({at::cross_entropy_loss(at::linear(hidden, head), target)}, {hidden, head}); });
  for (const int64_t tile : {256, 512, 1024}) {
    CrossEntropyOptions options;
    options.max_tile_tokens = tile;
    measure("fused, tiles of " + std::to_string(tile), [&] {
      torch::autograd::grad({fused_cross_entropy(hidden, head, target, weight, options).loss}, {hidden, head});
    });
  }
  measure("fused, forward only", [&] {
    const at::NoGradGuard no_grad;
    fused_cross_entropy(hidden, head, target, weight, {});
  });
  measure("per-token log-probabilities",
          [&] { torch::autograd::grad({token_log_probs(hidden, head, target, {}).sum()}, {hidden, head}); });
}
