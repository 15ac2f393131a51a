// SPDX-License-Identifier: Apache-2.0
// Claim: fused projection + cross-entropy costs little more than its three products and never holds all logits.
#include "ops/cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>

#include "../tests/ops/peak_memory.h"

namespace {

/// Best of several rounds: wall time, and CPU time of all threads, which other work on the machine disturbs less.
struct Seconds {
  double wall = 1e30, cpu = 1e30;
};

Seconds best_seconds(const std::function<void()>& run) {
  Seconds best;
  for (int round = 0; round < 7; ++round) {
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t cpu_start = std::clock();
    run();
    best.cpu = std::min(best.cpu, static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC);
    best.wall = std::min(best.wall, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

void report(const char* name, const std::function<void()>& run, bool is_last = false) {
  ballast::PeakMemory& memory = ballast::PeakMemory::installed();
  memory.reset();
  run();
  const double peak_mb = static_cast<double>(memory.peak()) / 1e6;
  const Seconds seconds = best_seconds(run);
  std::printf("  \"%s\": {\"seconds\": %.3f, \"cpu_seconds\": %.3f, \"peak_mb\": %.0f}%s\n", name, seconds.wall,
              seconds.cpu, peak_mb, is_last ? "" : ",");
}

}  // namespace

/// cross_entropy [tokens] [width] [vocab] [threads]
int main(int argc, char** argv) {
  const auto argument = [&](int index, int64_t fallback) { return argc > index ? std::atol(argv[index]) : fallback; };
  const int64_t num_tokens = argument(1, 2048), width = argument(2, 512), vocab = argument(3, 32000);
  at::set_num_threads(static_cast<int>(argument(4, 2)));
  ballast::PeakMemory::installed();
  const at::Tensor hidden = at::randn({num_tokens, width}).set_requires_grad(true);
  const at::Tensor head = at::randn({vocab, width}).mul_(0.02).set_requires_grad(true);
  const at::Tensor target = at::randint(vocab, {num_tokens}, at::kLong);
  const at::Tensor weight = at::full({num_tokens}, 1.0 / static_cast<double>(num_tokens));
  std::printf("{\n  \"tokens\": %ld, \"width\": %ld, \"vocab\": %ld, \"threads\": %d,\n", num_tokens, width, vocab,
              at::get_num_threads());
  report("plain linear + cross_entropy", [&] {
    torch::autograd::grad({at::cross_entropy_loss(at::linear(hidden, head), target)}, {hidden, head});
  });
  for (const int64_t tile : {256, 512, 1024}) {
    ballast::CrossEntropyOptions options;
    options.max_tile_tokens = tile;
    const std::string name = "fused, tiles of " + std::to_string(tile);
    report(name.c_str(), [&] {
      torch::autograd::grad({ballast::fused_cross_entropy(hidden, head, target, weight, options).loss}, {hidden, head});
    });
  }
  report("fused, forward only", [&] {
    const at::NoGradGuard no_grad;
    ballast::fused_cross_entropy(hidden, head, target, weight, {});
  });
  report("per-token log-probabilities", [&] {
    torch::autograd::grad({ballast::token_log_probs(hidden, head, target, {}).sum()}, {hidden, head});
  });
  report("its three products alone", [&] {
    const at::NoGradGuard no_grad;
    const at::Tensor logits = at::mm(hidden, head.t());
    at::mm(logits, head);
    at::mm(logits.t(), hidden);
  }, /*is_last=*/true);
  std::printf("}\n");
}
