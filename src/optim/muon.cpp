// SPDX-License-Identifier: Apache-2.0
#include "optim/muon.h"

#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>

#include <algorithm>
#include <cmath>

#include "optim/grad_clip.h"

namespace ballast {
namespace {

/// Modules whose matrices are tables of token vectors: their rows are no directions of one map.
constexpr const char* kTokenTables[] = {"embed_tokens", "lm_head"};

constexpr int kNewtonSchulzSteps = 5;
constexpr double kNewtonSchulzA = 3.4445, kNewtonSchulzB = -4.7750, kNewtonSchulzC = 2.0315;

}  // namespace

bool is_muon_matrix(const std::string& name, at::IntArrayRef shape) {
  if (shape.size() < 2) return false;
  const std::string path = "." + name + ".";
  return std::none_of(std::begin(kTokenTables), std::end(kTokenTables), [&](const char* module) {
    return path.find("." + std::string(module) + ".") != std::string::npos;
  });
}

at::Tensor orthogonalize(const at::Tensor& matrices, double eps) {
  const bool is_tall = matrices.size(-2) > matrices.size(-1);
  at::Tensor x = matrices.div(at::linalg_vector_norm(matrices, 2, {-2, -1}, /*keepdim=*/true).add_(eps));
  if (is_tall) x = x.transpose(-2, -1);
  for (int i = 0; i < kNewtonSchulzSteps; ++i) {
    const at::Tensor gram = at::matmul(x, x.transpose(-2, -1));
    const at::Tensor mix = at::matmul(gram, gram).mul_(kNewtonSchulzC).add_(gram, kNewtonSchulzB);
    x = at::matmul(mix, x).add_(x, kNewtonSchulzA);
  }
  return is_tall ? x.transpose(-2, -1) : x;
}

double Muon::update(const std::vector<OptimizerSlot>& slots, double learning_rate, double grad_scale) {
  std::vector<OptimizerSlot> others;
  std::vector<at::Tensor> matrices;
  for (const OptimizerSlot& slot : slots) {
    if (is_muon_matrix(slot.name, slot.master.sizes())) {
      update_matrix(slot, learning_rate, grad_scale);
      matrices.push_back(slot.master);
    } else {
      others.push_back(slot);
    }
  }
  return AdamW::update(others, learning_rate, grad_scale) + squared_norm(matrices);
}

void Muon::update_matrix(const OptimizerSlot& slot, double learning_rate, double grad_scale) {
  const double t = static_cast<double>(step_count());
  const double beta = options_.beta;
  const at::Tensor grad = slot.grad.mul(grad_scale);
  const at::Tensor& m = moments_of(slot, m_type_, /*has_second=*/false).m;
  const at::Tensor mean = m.to(at::kFloat);  // m itself where it is fp32
  mean.mul_(beta).add_(grad, 1 - beta);
  if (!mean.is_same(m)) m.copy_(mean);
  const at::Tensor estimate =
      mean.mul(beta / (1 - std::pow(beta, t + 1))).add_(grad, (1 - beta) / (1 - std::pow(beta, t)));

  const auto fan_out = static_cast<double>(slot.master.size(-2)), fan_in = static_cast<double>(slot.master.size(-1));
  const double scale = options_.consistent_rms ? *options_.consistent_rms * std::sqrt(std::max(fan_in, fan_out))
                                               : std::sqrt(std::max(1.0, fan_out / fan_in));
  const double decay = slot.decays ? options_.weight_decay : 0;
  const at::Tensor direction = orthogonalize(estimate, eps_).mul(scale).add_(slot.master, decay);
  const at::Tensor& master = slot.master;
  master.sub_(direction, learning_rate);
}

}  // namespace ballast
