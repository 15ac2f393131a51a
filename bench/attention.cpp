// SPDX-License-Identifier: Apache-2.0
// Claim: packed documents cost less than one document of the same length, windows grow with the length only linearly.
#include "ops/attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <memory>
#include <vector>

#include "report.h"

namespace {

using namespace ballast;

constexpr int64_t kRows = 4, kHeads = 8, kGroups = 4, kWidth = 64;

struct Case {
  int64_t length = 0, document = 0, window = 0;
  at::ScalarType type = at::kFloat;
  double soft_cap = 0;
};

nlohmann::ordered_json measure(const Case& one) {
  std::vector<int32_t> segments;
  for (int64_t n = 0; n < kRows * one.length; ++n) {
    segments.push_back(static_cast<int32_t>(n % one.length / one.document + 1));
  }
  const auto plan = std::make_shared<const AttentionPlan>(make_attention_plan(segments, kRows, one.length, one.window));
  const auto leaf = [&](int64_t heads) {
    return at::randn({kRows, one.length, heads, kWidth}).to(one.type).set_requires_grad(true);
  };
  const at::Tensor q = leaf(kHeads), k = leaf(kGroups), v = leaf(kGroups), cotangent = at::ones_like(q);
  const AttentionOptions options{.scale = 0.125, .soft_cap = one.soft_cap};
  const BenchTime forward = best_time(5, [&] {
    const at::NoGradGuard no_grad;
    attention(q, k, v, plan, options, at::Tensor());
  });
  const BenchTime both = best_time(
      5, [&] { torch::autograd::grad({attention(q, k, v, plan, options, at::Tensor())}, {q, k, v}, {cotangent}); });
  return {{"type", c10::toString(one.type)},
          {"length", one.length},
          {"document", one.document},
          {"window", one.window},
          {"soft_cap", one.soft_cap},
          {"tiles", plan->tiles.size()},
          {"forward_ms", rounded(1e3 * forward.seconds)},
          {"forward_backward_ms", rounded(1e3 * both.seconds)},
          {"forward_cpu_ms", rounded(1e3 * forward.cpu_seconds)},
          {"forward_backward_cpu_ms", rounded(1e3 * both.cpu_seconds)}};
}

}  // namespace

/// attention
int main(int argc, char** argv) {
  BenchReport report(argc, argv);
  report["rows"] = kRows;
  report["heads"] = kHeads;
  report["groups"] = kGroups;
  report["width"] = kWidth;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const auto& [length, document, window] : std::initializer_list<std::array<int64_t, 3>>{{512, 512, 0},
                                                                                                {512, 128, 0},
                                                                                                {512, 16, 0},
                                                                                                {2048, 2048, 0},
                                                                                                {2048, 300, 0},
                                                                                                {2048, 2048, 256},
                                                                                                {4096, 4096, 256}}) {
      report["cases"].push_back(measure({length, document, window, type}));
    }
  }
  report["cases"].push_back(measure({512, 512, 0, at::kFloat, 30}));
}
