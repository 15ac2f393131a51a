// SPDX-License-Identifier: Apache-2.0
// Claim: norm, rotation and gated activation run near the machine's copy rate, in one pass a direction.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>
#include <vector>

#include "ops/activation.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "report.h"

namespace {

using namespace ballast;
using Tensors = std::vector<at::Tensor>;

/// How many tensors of the size of the first input each direction reads and writes at least.
struct Traffic {
  double forward, backward;
};

void report_rates(BenchReport& report, const char* name, const std::function<at::Tensor(const Tensors&)>& run,
                  Tensors inputs, const Traffic& traffic) {
  const double bytes = static_cast<double>(inputs[0].nbytes());
  const auto rate = [&](double num_tensors, double seconds) { return rounded(num_tensors * bytes / seconds / 1e9); };
  const double forward = best_time(9, [&] {
                           const at::NoGradGuard no_grad;
                           run(inputs);
                         }).seconds;
  for (at::Tensor& input : inputs) input.set_requires_grad(true);
  const at::Tensor out = run(inputs), cotangent = at::ones_like(out);
  const double backward =
      best_time(9, [&] { torch::autograd::grad({out}, inputs, {cotangent}, /*retain_graph=*/true); }).seconds;
  report[name] = {{"forward_gb_per_s", rate(traffic.forward, forward)},
                  {"backward_gb_per_s", rate(traffic.backward, backward)}};
}

}  // namespace

/// elementwise [float32|bfloat16]
int main(int argc, char** argv) {
  const bool is_bf16 = argc > 1 && std::string(argv[1]) == "bfloat16";
  const at::TensorOptions options = at::dtype(is_bf16 ? at::kBFloat16 : at::kFloat);
  constexpr int64_t kRows = 4, kLength = 512, kWidth = 2048, kHeadWidth = 64;
  const auto random = [&](at::IntArrayRef sizes) { return at::randn(sizes).to(options); };
  const at::Tensor x = random({kRows, kLength, kWidth}), y = random({kRows, kLength, kWidth}), to = at::empty_like(x);

  BenchReport report(argc, argv);
  report["copy_gb_per_s"] =
      rounded(2 * static_cast<double>(x.nbytes()) / best_time(9, [&] { to.copy_(x); }).seconds / 1e9);
  report_rates(report, "rms_norm",
               [](const Tensors& in) { return rms_norm(in[0], in[1], NormForm::kScaleThenCast, 1e-5); },
               {x.clone(), at::ones({kWidth}, options)}, {2, 3});
  RopeSpec rope;
  rope.rotary_dim = kHeadWidth;
  const RopeTable table = rope_table(at::arange(kLength).expand({kRows, kLength}), rope, at::kFloat);
  report_rates(report, "rope", [&](const Tensors& in) { return apply_rope(in[0], table, rope); },
               {x.clone().view({kRows, kLength, kWidth / kHeadWidth, kHeadWidth})}, {2, 2});
  report_rates(report, "gated_silu",
               [](const Tensors& in) { return gated_activation(in[0], in[1], Activation::kSilu); },
               {x.clone(), y.clone()}, {3, 5});
  report_rates(report, "gated_gelu_tanh",
               [](const Tensors& in) { return gated_activation(in[0], in[1], Activation::kGeluTanh); },
               {x.clone(), y.clone()}, {3, 5});
}
