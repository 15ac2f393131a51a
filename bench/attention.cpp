// SPDX-License-Identifier: Apache-2.0
// Claim: packed documents cost less than one document of the same length, windows grow with the length only linearly.
#include "ops/attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <vector>

namespace {

constexpr int64_t kRows = 4, kHeads = 8, kGroups = 4, kWidth = 64;

/// Best of several rounds: wall time, and CPU time of all threads, which other work on the machine disturbs less.
struct Milliseconds {
  double wall = 1e30, cpu = 1e30;
};

Milliseconds best_milliseconds(const std::function<void()>& run) {
  Milliseconds best;
  for (int round = 0; round < 8; ++round) {
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t cpu_start = std::clock();
    run();
    best.cpu = std::min(best.cpu, 1e3 * static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC);
    best.wall = std::min(
        best.wall, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

void report(const char* name, int64_t length, int64_t document, int64_t window, at::ScalarType type,
            double soft_cap = 0) {
  std::vector<int32_t> segments;
  for (int64_t n = 0; n < kRows * length; ++n) segments.push_back(static_cast<int32_t>(n % length / document + 1));
  const auto plan = std::make_shared<const ballast::AttentionPlan>(
      ballast::make_attention_plan(segments, kRows, length, window));
  const auto leaf = [&](int64_t heads) {
    return at::randn({kRows, length, heads, kWidth}).to(type).set_requires_grad(true);
  };
  const at::Tensor q = leaf(kHeads), k = leaf(kGroups), v = leaf(kGroups), cotangent = at::ones_like(q);
  const ballast::AttentionOptions options{.scale = 0.125, .soft_cap = soft_cap};
  const Milliseconds forward = best_milliseconds([&] {
    const at::NoGradGuard no_grad;
    ballast::attention(q, k, v, plan, options, at::Tensor());
  });
  const Milliseconds both = best_milliseconds([&] {
    torch::autograd::grad({ballast::attention(q, k, v, plan, options, at::Tensor())}, {q, k, v}, {cotangent});
  });
  std::printf("  {\"case\": \"%s\", \"length\": %ld, \"document\": %ld, \"window\": %ld, \"tiles\": %zu, "
              "\"forward_ms\": %.2f, \"forward_backward_ms\": %.2f, \"forward_cpu_ms\": %.2f, "
              "\"forward_backward_cpu_ms\": %.2f},\n",
              name, length, document, window, plan->tiles.size(), forward.wall, both.wall, forward.cpu, both.cpu);
}

}  // namespace

/// attention [threads]
int main(int argc, char** argv) {
  at::set_num_threads(argc > 1 ? std::atoi(argv[1]) : 2);
  std::printf("[\n");
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const char* name = type == at::kFloat ? "float32" : "bfloat16";
    report(name, 512, 512, 0, type);
    report(name, 512, 128, 0, type);
    report(name, 512, 16, 0, type);
    report(name, 2048, 2048, 0, type);
    report(name, 2048, 300, 0, type);
    report(name, 2048, 2048, 256, type);
    report(name, 4096, 4096, 256, type);
  }
  report("float32, soft cap", 512, 512, 0, at::kFloat, 30);
  std::printf("  {\"rows\": %ld, \"heads\": %ld, \"groups\": %ld, \"width\": %ld, \"threads\": %d}\n]\n", kRows, kHeads,
              kGroups, kWidth, at::get_num_threads());
}
