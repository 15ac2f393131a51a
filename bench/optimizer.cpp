// SPDX-License-Identifier: Apache-2.0
// Nanoseconds a parameter of one AdamW update and of the gradient norm, beside the machine's copy rate.
// Prints one JSON line. Usage: bench_optimizer [million parameters]
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "optim/adamw.h"
#include "optim/grad_clip.h"

namespace {

/// Shortest of nine runs after one to warm up, in seconds.
double best_seconds(const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  work();
  double best = 1e9;
  for (int run = 0; run < 9; ++run) {
    const auto start = Clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t parameters = (argc > 1 ? std::atoll(argv[1]) : 40) * 1'000'000;
  constexpr int64_t kTensors = 40;  // about the matrices of a small model
  ballast::AdamWNumbers numbers;
  numbers.learning_rate = 1e-4;
  numbers.weight_decay = 0.1;
  numbers.b1 = 0.9;
  numbers.b2 = 0.95;
  numbers.eps = 1e-8;
  numbers.grad_scale = 0.5;

  ballast::AdamW optimizer({});
  std::vector<ballast::OptimizerSlot> slots;
  std::vector<ballast::AdamWOperands> operands;
  std::vector<at::Tensor> grads;
  for (int64_t i = 0; i < kTensors; ++i) {
    const at::Tensor p = at::rand({parameters / kTensors});
    grads.push_back(at::rand_like(p).sub_(0.5));
    slots.push_back({"w" + std::to_string(i), p, grads.back(), true});
  }
  optimizer.step(slots, numbers.learning_rate, 1);
  for (const auto& slot : slots) operands.push_back({slot.master, slot.grad, optimizer.moments().at(slot.name)});
  const at::Tensor from = at::rand({parameters}), to = at::empty({parameters});

  const double copy = best_seconds([&] { to.copy_(from); });
  const double step = best_seconds([&] { optimizer.step(slots, numbers.learning_rate, numbers.grad_scale); });
  const double norm = best_seconds([&] { ballast::global_norm(grads); });
  const double plain = best_seconds([&] {
    for (const auto& one : operands) ballast::adamw_update_plain(numbers, one);
  });
  numbers.grad_scale = 1;  // ATen's writes the scaled gradient back; unscaled it does the least work
  const double aten = best_seconds([&] { ballast::adamw_update_fused(numbers, operands); });

  const double count = static_cast<double>(parameters), giga = 1e9;
  std::printf(
      "{\"parameters\": %lld, \"threads\": %d, \"copy_GB_per_s\": %.2f, \"adamw_GB_per_s\": %.2f, "
      "\"ns_per_parameter\": {\"adamw\": %.3f, \"aten_fused\": %.3f, \"plain\": %.3f, \"norm\": %.3f}}\n",
      static_cast<long long>(parameters), at::get_num_threads(), 8 * count / copy / giga, 28 * count / step / giga,
      step / count * giga, aten / count * giga, plain / count * giga, norm / count * giga);
}
