// SPDX-License-Identifier: Apache-2.0
// Claim: an AdamW update is one pass over its memory, at the machine's copy rate; an update of Muon takes the time of
// its matrix products.
#include <ATen/ATen.h>

#include <vector>

#include "optim/grad_clip.h"
#include "optim/muon.h"
#include "report.h"

/// optimizer [million parameters]
int main(int argc, char** argv) {
  using namespace ballast;
  const int64_t parameters = (argc > 1 ? std::atoll(argv[1]) : 40) * 1'000'000;
  constexpr int64_t kTensors = 40;  // about the matrices of a small model
  AdamWNumbers numbers;
  numbers.learning_rate = 1e-4;
  numbers.weight_decay = 0.1;
  numbers.b1 = 0.9;
  numbers.b2 = 0.95;
  numbers.eps = 1e-8;
  numbers.grad_scale = 0.5;

  AdamW optimizer({});
  std::vector<OptimizerSlot> slots;
  std::vector<AdamWOperands> operands;
  std::vector<at::Tensor> grads;
  for (int64_t i = 0; i < kTensors; ++i) {
    const at::Tensor p = at::rand({parameters / kTensors});
    grads.push_back(at::rand_like(p).sub_(0.5));
    slots.push_back({"w" + std::to_string(i), p, grads.back(), true});
  }
  optimizer.step(slots, numbers.learning_rate, 1);
  for (const auto& slot : slots) operands.push_back({slot.master, slot.grad, optimizer.moments().at(slot.name)});
  const at::Tensor from = at::rand({parameters}), to = at::empty({parameters});

  BenchReport report(argc, argv);
  const double count = static_cast<double>(parameters);
  const auto nanoseconds = [&](const std::function<void()>& run) {
    return rounded(best_time(9, run).seconds / count * 1e9);
  };
  report["parameters"] = parameters;
  report["copy_ns_per_float"] = nanoseconds([&] { to.copy_(from); });
  report["adamw_ns_per_parameter"] =
      nanoseconds([&] { optimizer.step(slots, numbers.learning_rate, numbers.grad_scale); });
  AdamW rounded_mean({.m_type = at::kBFloat16});
  report["adamw_bfloat16_mean_ns_per_parameter"] =
      nanoseconds([&] { rounded_mean.step(slots, numbers.learning_rate, numbers.grad_scale); });
  report["norm_ns_per_parameter"] = nanoseconds([&] { global_norm(grads); });
  report["plain_ns_per_parameter"] = nanoseconds([&] {
    for (const auto& one : operands) adamw_update_plain(numbers, one);
  });
  numbers.grad_scale = 1;  // ATen's writes the scaled gradient back; unscaled it does the least work
  report["aten_fused_ns_per_parameter"] = nanoseconds([&] { adamw_update_fused(numbers, operands); });
  // The update reads p, g, m, v and writes p, m, v: 28 bytes; a copy moves 8.
  report["adamw_over_copy_bandwidth"] = rounded(28.0 / report["adamw_ns_per_parameter"].get<double>() /
                                                (8.0 / report["copy_ns_per_float"].get<double>()));

  const at::Tensor matrix = at::rand({1024, 2816}), gradient = at::rand_like(matrix).sub_(0.5);
  const at::Tensor square = at::rand({1024, 1024});
  Muon muon({}, {});
  const double muon_seconds =
      best_time(5, [&] {
        muon.step(std::vector{OptimizerSlot{"up_proj.weight", matrix, gradient, true}}, 1e-3, 1);
      }).seconds;
  // Five times X X^T, A A and B X.
  const double product_seconds = best_time(5, [&] {
                                   for (int i = 0; i < 5; ++i) {
                                     at::matmul(matrix, matrix.t());
                                     at::matmul(square, square);
                                     at::matmul(square, matrix);
                                   }
                                 }).seconds;
  report["muon_ns_per_parameter"] = rounded(muon_seconds / static_cast<double>(matrix.numel()) * 1e9);
  report["muon_over_its_products"] = rounded(muon_seconds / product_seconds);
}
