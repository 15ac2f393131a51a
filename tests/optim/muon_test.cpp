// SPDX-License-Identifier: Apache-2.0
#include "optim/muon.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace ballast {
namespace {

/// A matrix in double with products written out.
struct Dense {
  int64_t rows = 0, columns = 0;
  std::vector<double> values;

  Dense(int64_t r, int64_t c) : rows(r), columns(c), values(static_cast<size_t>(r * c)) {}
  explicit Dense(const at::Tensor& tensor) : Dense(tensor.size(0), tensor.size(1)) {
    const at::Tensor plain = tensor.to(at::kDouble).contiguous();
    std::copy_n(plain.const_data_ptr<double>(), values.size(), values.begin());
  }
  double& at(int64_t i, int64_t j) { return values[static_cast<size_t>(i * columns + j)]; }
  double at(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * columns + j)]; }

  Dense turned() const {
    Dense result(columns, rows);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) result.at(j, i) = at(i, j);
    }
    return result;
  }
  Dense times(const Dense& other) const {
    Dense result(rows, other.columns);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < other.columns; ++j) {
        for (int64_t k = 0; k < columns; ++k) result.at(i, j) += at(i, k) * other.at(k, j);
      }
    }
    return result;
  }
};

/// The published iteration, which always multiplies from the side of the rows.
Dense longhand_newton_schulz(Dense x, double eps) {
  double squares = 0;
  for (const double value : x.values) squares += value * value;
  for (double& value : x.values) value /= std::sqrt(squares) + eps;
  for (int step = 0; step < 5; ++step) {
    const Dense a = x.times(x.turned());
    const Dense ax = a.times(x), aax = a.times(ax);
    for (size_t i = 0; i < x.values.size(); ++i) {
      x.values[i] = 3.4445 * x.values[i] - 4.7750 * ax.values[i] + 2.0315 * aax.values[i];
    }
  }
  return x;
}

struct LonghandMuon {
  Dense p, m;
  explicit LonghandMuon(const at::Tensor& start) : p(start), m(start.size(0), start.size(1)) {}

  void update(const MuonOptions& options, double eps, double learning_rate, double t, const Dense& g) {
    Dense estimate(p.rows, p.columns);
    const double beta = options.beta;
    for (size_t i = 0; i < m.values.size(); ++i) {
      m.values[i] = beta * m.values[i] + (1 - beta) * g.values[i];
      estimate.values[i] =
          beta * m.values[i] / (1 - std::pow(beta, t + 1)) + (1 - beta) * g.values[i] / (1 - std::pow(beta, t));
    }
    const Dense x = longhand_newton_schulz(estimate, eps);
    const double fan_out = static_cast<double>(p.rows), fan_in = static_cast<double>(p.columns);
    const double scale = options.consistent_rms ? *options.consistent_rms * std::sqrt(std::max(fan_out, fan_in))
                                                : std::sqrt(std::max(1.0, fan_out / fan_in));
    for (size_t i = 0; i < m.values.size(); ++i) {
      p.values[i] -= learning_rate * (scale * x.values[i] + options.weight_decay * p.values[i]);
    }
  }
};

double largest_gap(const at::Tensor& tensor, const Dense& expected) {
  const Dense got(tensor);
  double gap = 0;
  for (size_t i = 0; i < got.values.size(); ++i) gap = std::max(gap, std::abs(got.values[i] - expected.values[i]));
  return gap;
}

OptimizerSlot muon_slot(const std::string& name, const at::Tensor& master, const at::Tensor& grad, bool decays = true) {
  return {name, master, grad, decays};
}

const std::string kMatrix = "model.layers.0.mlp.up_proj.weight";

TEST(Muon, TwoStepsAreTheLonghandUpdate) {
  at::Generator generator = at::detail::createCPUGenerator(11);
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{3, 2}, {4, 6}, {5, 5}, {1, 7}}) {
    for (const std::optional<double> rms : {std::optional<double>(), std::optional<double>(0.2)}) {
      const MuonOptions options{.beta = 0.95, .weight_decay = 0.1, .consistent_rms = rms};
      Muon muon(options, AdamWOptions{});
      const at::Tensor p = at::randn(shape, generator);
      LonghandMuon expected(p);
      for (int t = 1; t <= 2; ++t) {
        const at::Tensor grad = at::randn(shape, generator);
        muon.step(std::vector{muon_slot(kMatrix, p, grad)}, 0.05, 0.25);
        expected.update(options, 1e-8, 0.05, t, Dense(grad.mul(0.25)));
        EXPECT_LE(largest_gap(p, expected.p), 1e-6) << at::IntArrayRef(shape) << " step " << t;
        EXPECT_LE(largest_gap(muon.moments().at(kMatrix).m, expected.m), 1e-7);
      }
      EXPECT_FALSE(muon.moments().at(kMatrix).v.defined());
    }
  }
}

// Singular values s of G / |G| go through s -> 3.4445 s - 4.7750 s^3 + 2.0315 s^5 five times, vectors stay:
// 0.6 and 0.8 become the two numbers (numpy, float64).
TEST(Muon, OrthogonalizeMapsSingularValues) {
  const at::Tensor turned = at::tensor({0.f, -3.f, 4.f, 0.f}).view({2, 2});  // a quarter turn of diag(4, 3)
  const at::Tensor result = orthogonalize(turned, 0);
  EXPECT_NEAR(result[0][1].item<double>(), -0.72287617, 2e-6);
  EXPECT_NEAR(result[1][0].item<double>(), 1.11920393, 2e-6);
  EXPECT_NEAR(result[0][0].item<double>(), 0, 1e-7);
  EXPECT_NEAR(result[1][1].item<double>(), 0, 1e-7);
}

TEST(Muon, OrthogonalizeTreatsEachMatrixAndItsTransposeAlike) {
  at::Generator generator = at::detail::createCPUGenerator(2);
  const at::Tensor three = at::randn({3, 5, 4}, generator);
  const at::Tensor together = orthogonalize(three, 1e-8);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_LE(largest_gap(together[i], Dense(orthogonalize(three[i], 1e-8))), 2e-6);
    EXPECT_LE(largest_gap(together[i].t(), Dense(orthogonalize(three[i].t(), 1e-8))), 2e-6);
  }
  EXPECT_TRUE(at::equal(orthogonalize(at::zeros({2, 3}), 1e-8), at::zeros({2, 3})));
}

TEST(Muon, EmbeddingHeadAndVectorsGoToAdamWWithNesterovEstimate) {
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"}) {
    EXPECT_FALSE(is_muon_matrix(name, {4, 3})) << name;
  }
  for (const char* name :
       {"model.norm.weight", "model.layers.0.self_attn.q_proj.bias", "model.layers.0.self_attn.sinks"}) {
    EXPECT_FALSE(is_muon_matrix(name, {4})) << name;
  }
  for (const char* name : {"model.layers.0.self_attn.q_proj.weight", "model.layers.1.mlp.down_proj.weight"}) {
    EXPECT_TRUE(is_muon_matrix(name, {4, 3})) << name;
  }

  at::Generator generator = at::detail::createCPUGenerator(4);
  const at::Tensor p = at::randn({4, 3}, generator), q = p.clone();
  Muon muon(MuonOptions{}, AdamWOptions{});
  AdamW adam(AdamWOptions{}, AdamForm::kNesterov);
  for (int i = 0; i < 3; ++i) {
    const at::Tensor grad = at::randn({4, 3}, generator);
    muon.step(std::vector{muon_slot("lm_head.weight", p, grad)}, 0.1, 0.5);
    adam.step(std::vector{muon_slot("lm_head.weight", q, grad)}, 0.1, 0.5);
  }
  EXPECT_TRUE(at::equal(p, q));
  EXPECT_EQ(muon.step_count(), 3);
}

TEST(Muon, MomentumInBFloat16IsRoundedAfterTheStep) {
  at::Generator generator = at::detail::createCPUGenerator(6);
  const at::Tensor p = at::randn({6, 4}, generator), q = p.clone(), grad = at::randn({6, 4}, generator);
  Muon whole(MuonOptions{}, AdamWOptions{}), rounded(MuonOptions{}, AdamWOptions{.m_type = at::kBFloat16});
  whole.step(std::vector{muon_slot(kMatrix, p, grad)}, .1, 1);
  rounded.step(std::vector{muon_slot(kMatrix, q, grad)}, .1, 1);
  EXPECT_TRUE(at::equal(p, q));
  EXPECT_TRUE(at::equal(rounded.moments().at(kMatrix).m, whole.moments().at(kMatrix).m.to(at::kBFloat16)));

  // A second step from the rounded momentum equals one of an optimizer that was given it in fp32.
  Muon given(MuonOptions{}, AdamWOptions{});
  given.restore(1, {{kMatrix, {rounded.moments().at(kMatrix).m.to(at::kFloat), {}}}});
  given.step(std::vector{muon_slot(kMatrix, p, grad)}, .1, 1);
  rounded.step(std::vector{muon_slot(kMatrix, q, grad)}, .1, 1);
  EXPECT_TRUE(at::equal(p, q));
}

TEST(Muon, OnlyMembersDecay) {
  const at::Tensor kept = at::ones({2, 2}), decayed = at::ones({2, 2});
  Muon muon(MuonOptions{.beta = .95, .weight_decay = .5, .consistent_rms = {}}, AdamWOptions{});
  muon.step(std::vector{muon_slot("a.weight", kept, at::zeros({2, 2}), false),
                        muon_slot("b.weight", decayed, at::zeros({2, 2}))},
            .1, 1);
  EXPECT_TRUE(at::equal(kept, at::ones({2, 2})));
  EXPECT_TRUE(at::allclose(decayed, at::full({2, 2}, 0.95)));
}

TEST(Muon, RestoredStateContinuesBitForBit) {
  at::Generator generator = at::detail::createCPUGenerator(5);
  const at::Tensor p = at::randn({6, 4}, generator), v = at::randn({4}, generator);
  const auto slots = [&](const at::Tensor& matrix, const at::Tensor& vector, const at::Tensor& grad) {
    return std::vector{muon_slot(kMatrix, matrix, grad), muon_slot("model.norm.weight", vector, grad[0].contiguous())};
  };
  const at::Tensor first = at::randn({6, 4}, generator), second = at::randn({6, 4}, generator);
  Muon whole(MuonOptions{}, AdamWOptions{}), resumed(MuonOptions{}, AdamWOptions{});
  whole.step(slots(p, v, first), .1, 1);
  std::map<std::string, Moments> state;
  for (const auto& [name, moments] : whole.moments()) {
    state[name] = {moments.m.clone(), moments.v.defined() ? moments.v.clone() : at::Tensor()};
  }
  resumed.restore(whole.step_count(), state);
  const at::Tensor p_copy = p.clone(), v_copy = v.clone();
  whole.step(slots(p, v, second), .1, 1);
  resumed.step(slots(p_copy, v_copy, second), .1, 1);
  EXPECT_TRUE(at::equal(p, p_copy));
  EXPECT_TRUE(at::equal(v, v_copy));
}

}  // namespace
}  // namespace ballast
