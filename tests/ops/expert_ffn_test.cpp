// SPDX-License-Identifier: Apache-2.0
#include "ops/expert_ffn.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "errors/errors.h"
#include "ops/expert_kinds.h"
#include "ops/gradcheck.h"
#include "ops/peak_memory.h"

namespace ballast {
namespace {

/// A layer and its tokens. Inputs are x, routing weights, gate, up and down matrices, then, if any, the biases.
struct ExpertCase {
  std::string name;
  at::Tensor expert_NK;
  int64_t num_experts, width, expert_width;
  ExpertForm form = {};
  bool has_bias = false;

  int64_t num_tokens() const { return expert_NK.size(0); }
  std::vector<at::Tensor> inputs(at::ScalarType type = at::kDouble) const {
    const int64_t e = num_experts, d = width, f = expert_width;
    std::vector<at::Tensor> tensors = {normal({num_tokens(), d}, 1), normal(expert_NK.sizes(), 2).abs() * 0.5,
                                       normal({e, f, d}, 3) / std::sqrt(d), normal({e, f, d}, 4) / std::sqrt(d),
                                       normal({e, d, f}, 5) / std::sqrt(f)};
    if (has_bias) {
      tensors.insert(tensors.end(), {normal({e, f}, 6) * 0.5, normal({e, f}, 7) * 0.5, normal({e, d}, 8) * 0.5});
    }
    for (at::Tensor& tensor : tensors) tensor = tensor.to(type);
    return tensors;
  }
};

ExpertWeights expert_weights(const std::vector<at::Tensor>& in) {
  if (in.size() == 5) return {in[2], in[3], in[4], {}, {}, {}};
  return {in[2], in[3], in[4], in[5], in[6], in[7]};
}

ExpertOutputs run_case(const ExpertCase& layer, const std::vector<at::Tensor>& in, const ExpertOutputs& given = {}) {
  return expert_ffn(in[0], in[1], plan_experts(layer.expert_NK, layer.num_experts), expert_weights(in), layer.form,
                    given);
}

at::Tensor run_case_by(ExpertKind kind, const ExpertCase& layer, const std::vector<at::Tensor>& in) {
  const ExpertPlan plan = plan_experts(layer.expert_NK, layer.num_experts);
  return expert_ffn_by(kind, in[0], in[1], plan, expert_weights(in), layer.form, {}).y_ND;
}

/// The activations from their definitions.
at::Tensor act_by_definition(const at::Tensor& g, const ExpertForm& form) {
  switch (form.activation) {
    case Activation::kSilu:
      return g / (1 + at::exp(-form.alpha * g));
    case Activation::kGelu:
      return 0.5 * g * (1 + at::erf(g / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return 0.5 * g * (1 + at::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g)));
    case Activation::kRelu:
      return at::clamp_min(g, 0);
    case Activation::kLinear:
      return g;
  }
  return {};
}

/// Token by token and choice by choice. Gate and up are rounded to `kept`, which decides on which side of the limit
/// they lie, and pass their gradients as they are.
at::Tensor token_loop(const ExpertCase& layer, const std::vector<at::Tensor>& in, at::ScalarType kept = at::kDouble) {
  const auto rounded = [&](const at::Tensor& v) { return v + (v.detach().to(kept).to(v.scalar_type()) - v.detach()); };
  const ExpertWeights w = expert_weights(in);
  std::vector<at::Tensor> rows;
  for (int64_t n = 0; n < layer.num_tokens(); ++n) {
    at::Tensor y = at::zeros({layer.width}, in[0].options());
    for (int64_t k = 0; k < layer.expert_NK.size(1); ++k) {
      const int64_t e = layer.expert_NK[n][k].item<int64_t>();
      if (e < 0) continue;
      at::Tensor gate = w.gate_EFD[e].mv(in[0][n]), up = w.up_EFD[e].mv(in[0][n]);
      if (layer.has_bias) gate = gate + w.gate_bias_EF[e], up = up + w.up_bias_EF[e];
      gate = rounded(gate), up = rounded(up);
      const double limit = layer.form.limit;
      if (limit > 0) gate = at::clamp_max(gate, limit), up = at::clamp(up, -limit, limit);
      at::Tensor out = w.down_EDF[e].mv(act_by_definition(gate, layer.form) * (up + layer.form.up_offset));
      if (layer.has_bias) out = out + w.down_bias_ED[e];
      y = y + in[1][n][k] * out;
    }
    rows.push_back(y);
  }
  return at::stack(rows);
}

at::Tensor choices(int64_t num_tokens, int64_t num_choices, int64_t lowest, int64_t num_experts, uint64_t seed = 9) {
  return at::randint(lowest, num_experts, {num_tokens, num_choices}, at::detail::createCPUGenerator(seed),
                     at::TensorOptions().dtype(at::kLong));
}

at::Tensor all_experts(int64_t num_tokens, int64_t num_experts) {
  return at::arange(num_experts).expand({num_tokens, num_experts}).contiguous();
}

const ExpertForm kClippedForm{.limit = 1.5, .alpha = 1.702, .up_offset = 1};

/// Every way in which tokens and experts meet, and every form of an expert.
std::vector<ExpertCase> expert_cases() {
  return {{"random", choices(13, 2, 0, 5), 5, 6, 7},
          {"more experts than choices", choices(3, 2, 0, 20), 20, 4, 3},
          {"dropped choices", choices(11, 3, -1, 3), 3, 5, 4},
          {"all tokens to one expert", at::full({9, 1}, 2, at::kLong), 4, 5, 6},
          {"one token", at::tensor({3, 1}, at::kLong).view({1, 2}), 4, 5, 6},
          {"one expert", at::zeros({6, 1}, at::kLong), 1, 5, 4},
          {"every expert for every token", all_experts(5, 3), 3, 4, 6},
          {"one expert twice", at::tensor({1, 1, 0, 1, 2, 2}, at::kLong).view({3, 2}), 3, 4, 5},
          {"biases", choices(10, 2, -1, 4), 4, 6, 5, {}, true},
          {"clipped, with biases", choices(10, 2, -1, 4), 4, 6, 5, kClippedForm, true},
          {"clipped", choices(10, 2, 0, 4), 4, 6, 5, {.limit = 0.5}},
          {"tanh GELU", choices(10, 2, 0, 4), 4, 6, 5, {.activation = Activation::kGeluTanh, .limit = 1}},
          {"GELU", choices(10, 2, 0, 4), 4, 6, 5, {.activation = Activation::kGelu}},
          {"ReLU", choices(10, 2, 0, 4), 4, 6, 5, {.activation = Activation::kRelu, .up_offset = 0.5}},
          {"wide", choices(70, 4, -1, 9), 9, 48, 72}};
}

struct ExpertResult {
  at::Tensor y;
  std::vector<at::Tensor> gradients;
};

/// y and the gradients of a fixed random combination of it.
ExpertResult differentiate(const TensorFunction& function, const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.detach().clone().set_requires_grad(true));
  const at::Tensor y = function(leaves);
  const at::Tensor cotangent = normal(y.sizes(), 77).to(y.scalar_type());
  return {y.detach(), torch::autograd::grad({y}, leaves, {cotangent}, std::nullopt, false, /*allow_unused=*/true)};
}

/// The largest relative error of y and all gradients; NaN if one is.
double result_error(const ExpertResult& got, const ExpertResult& need) {
  double worst = relative_error(got.y, need.y);
  for (size_t i = 0; i < need.gradients.size() && !std::isnan(worst); ++i) {
    const at::Tensor exact =
        need.gradients[i].defined() ? need.gradients[i] : at::zeros_like(got.gradients[i], at::kDouble);
    const double error = relative_error(got.gradients[i], exact);
    worst = std::isnan(error) ? error : std::max(worst, error);
  }
  return worst;
}

bool are_equal(const ExpertResult& a, const ExpertResult& b) {
  bool is_equal = at::equal(a.y, b.y);
  for (size_t i = 0; i < a.gradients.size(); ++i) is_equal = is_equal && at::equal(a.gradients[i], b.gradients[i]);
  return is_equal;
}

ExpertResult differentiate_case(const ExpertCase& layer, at::ScalarType type = at::kFloat) {
  return differentiate([&](const auto& in) { return run_case(layer, in).y_ND; }, layer.inputs(type));
}

at::Tensor matrices(std::initializer_list<double> values, at::IntArrayRef sizes) {
  return at::tensor(at::ArrayRef<double>(values), at::kDouble).view(sizes);
}

TEST(ExpertFfn, MatchesHandCalculation) {
  // x = [1, 2], both experts of width 1. Expert 0: gate 1, up 2, silu(1) = 0.7310585786300049,
  // product 1.4621171572600098, out [1, -1] of it. Expert 1: gate 2, up 3, silu(2) = 1.7615941559557646,
  // product 5.284782467867294, out [0, 2] of it. y = 0.25 [1.4621.., -1.4621..] + 0.5 [0, 10.5695..]. With dy = [1, 0]
  // expert 1 passes nothing on; expert 0 has d product = 0.25, silu'(1) = 0.9276705118714869: d gate = 0.25 * 2 *
  // 0.92767.., d up = 0.25 * 0.73105...
  const std::vector<at::Tensor> in = {
      matrices({1, 2}, {1, 2}),          matrices({0.5, 0.25}, {1, 2}),      matrices({1, 0, 0, 1}, {2, 1, 2}),
      matrices({0, 1, 1, 1}, {2, 1, 2}), matrices({1, -1, 0, 2}, {2, 2, 1}),
  };
  const at::Tensor expert_NK = at::tensor({1, 0}, at::kLong).view({1, 2});
  for (const ExpertKind kind : {ExpertKind::kThreads, ExpertKind::kLoop}) {
    std::vector<at::Tensor> leaves;
    for (const at::Tensor& tensor : in) leaves.push_back(tensor.clone().set_requires_grad(true));
    const ExpertOutputs out =
        expert_ffn_by(kind, leaves[0], leaves[1], plan_experts(expert_NK, 2), expert_weights(leaves), {}, {});
    EXPECT_LT(relative_error(out.gate_RF, matrices({1, 2}, {2, 1})), 1e-14);
    EXPECT_LT(relative_error(out.up_RF, matrices({2, 3}, {2, 1})), 1e-14);
    EXPECT_LT(relative_error(out.y_ND, matrices({0.36552928931500245, 4.919253178552292}, {1, 2})), 1e-14);
    const auto d = torch::autograd::grad({out.y_ND}, leaves, {matrices({1, 0}, {1, 2})});
    EXPECT_LT(relative_error(d[0], matrices({0.46383525593574345, 0.18276464465750122}, {1, 2})), 1e-14);
    EXPECT_LT(relative_error(d[1], matrices({0, 1.4621171572600098}, {1, 2})), 1e-14);
    EXPECT_LT(relative_error(d[2], matrices({0.46383525593574345, 0.9276705118714869, 0, 0}, {2, 1, 2})), 1e-14);
    EXPECT_LT(relative_error(d[3], matrices({0.18276464465750122, 0.36552928931500245, 0, 0}, {2, 1, 2})), 1e-14);
    EXPECT_LT(relative_error(d[4], matrices({0.36552928931500245, 0, 2.642391233933647, 0}, {2, 2, 1})), 1e-14);
  }
}

TEST(ExpertFfn, PassesAGradientOnTheLimitAndNoneBeyond) {
  // One expert of width 3, x = 1; its gates are 1.5 (on the limit), 2 (beyond, taken as 1.5) and 0.5, its ups -1.5 (on
  // the limit), 0.25 and -2 (beyond, taken as -1.5). With s = 1 / (1 + e^(-1.702 g)): act = g s, slope = s + 1.702 g s
  // (1 - s) at g = 1.5 and 0.5.
  const double at_limit = 1.3916621984470765, slope_at_limit = 1.098848064624103;
  const double at_half = 0.35038843660638014, slope_at_half = 0.8792219119654143;
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    std::vector<at::Tensor> in = {matrices({1}, {1, 1}), matrices({1}, {1, 1}), matrices({1.5, 2, 0.5}, {1, 3, 1}),
                                  matrices({-1.5, 0.25, -2}, {1, 3, 1}), matrices({1, 1, 1}, {1, 1, 3})};
    for (at::Tensor& tensor : in) tensor = tensor.to(type).set_requires_grad(true);
    const at::Tensor y =
        expert_ffn(in[0], in[1], plan_experts(at::zeros({1, 1}, at::kLong), 1), expert_weights(in), kClippedForm).y_ND;
    const double tolerance = type == at::kDouble ? 1e-14 : 2e-7;
    EXPECT_LT(relative_error(y, matrices({-0.5 * at_limit + 1.25 * at_limit - 0.5 * at_half}, {1, 1})), tolerance);
    const auto d = torch::autograd::grad({y}, in, {at::ones_like(y)});
    EXPECT_LT(relative_error(d[2], matrices({-0.5 * slope_at_limit, 0, -0.5 * slope_at_half}, {1, 3, 1})), tolerance);
    EXPECT_LT(relative_error(d[3], matrices({at_limit, at_limit, 0}, {1, 3, 1})), tolerance);
  }
}

TEST(ExpertFfn, MatchesALoopOverTokens) {
  for (const ExpertCase& layer : expert_cases()) {
    const ExpertResult exact = differentiate([&](const auto& in) { return token_loop(layer, in); }, layer.inputs());
    for (const ExpertKind kind : {ExpertKind::kThreads, ExpertKind::kLoop}) {
      const TensorFunction function = [&](const auto& in) { return run_case_by(kind, layer, in); };
      EXPECT_LT(result_error(differentiate(function, layer.inputs()), exact), 1e-12) << layer.name;
      EXPECT_LT(result_error(differentiate(function, layer.inputs(at::kFloat)), exact), 1e-5) << layer.name;
    }
  }
}

TEST(ExpertFfn, GradientsMatchFiniteDifferences) {
  for (const ExpertCase& layer : expert_cases()) {
    if (layer.name == "wide") continue;
    for (const ExpertKind kind : {ExpertKind::kThreads, ExpertKind::kLoop}) {
      EXPECT_LT(gradient_error([&](const auto& in) { return run_case_by(kind, layer, in); }, layer.inputs()), 1e-8)
          << layer.name;
    }
  }
}

TEST(ExpertFfn, ATokenWithoutChoicesGetsZero) {
  const ExpertCase layer{"", at::tensor({-1, -1, 0, -1, 1, 0}, at::kLong).view({3, 2}), 2, 8, 8, {}, true};
  for (const ExpertKind kind : {ExpertKind::kThreads, ExpertKind::kLoop}) {
    std::vector<at::Tensor> in = layer.inputs(at::kFloat);
    in[1].masked_fill_(layer.expert_NK < 0, std::nan(""));  // never read
    const ExpertResult result = differentiate([&](const auto& x) { return run_case_by(kind, layer, x); }, in);
    EXPECT_TRUE(at::equal(result.y[0], at::zeros({8})));
    EXPECT_TRUE(at::equal(result.gradients[0][0], at::zeros({8})));
    EXPECT_TRUE(at::equal(result.gradients[1][0], at::zeros({2})));
    EXPECT_EQ(result.gradients[1][1][1].item<float>(), 0);
    EXPECT_TRUE(at::isfinite(result.y).all().item<bool>());
  }
}

TEST(ExpertFfn, WorksWithoutAnyRow) {
  for (const at::Tensor& expert_NK : {at::full({4, 2}, -1, at::kLong), at::empty({0, 2}, at::kLong)}) {
    const ExpertCase layer{"", expert_NK, 3, 8, 16, {}, true};
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
      for (const ExpertKind kind : {ExpertKind::kThreads, ExpertKind::kLoop}) {
        const ExpertResult result =
            differentiate([&](const auto& in) { return run_case_by(kind, layer, in); }, layer.inputs(type));
        EXPECT_TRUE(at::equal(result.y, at::zeros_like(result.y)));
        for (const at::Tensor& d : result.gradients) EXPECT_TRUE(at::equal(d, at::zeros_like(d)));
      }
    }
  }
}

TEST(ExpertFfn, ExpertsWithoutRowsGetZeroGradientsInFreshTensors) {
  const ExpertCase layer{"", at::full({6, 1}, 1, at::kLong), 3, 16, 8, {}, true};
  const ExpertResult result = differentiate_case(layer);
  for (size_t i = 2; i < result.gradients.size(); ++i) {
    EXPECT_TRUE(result.gradients[i].is_contiguous());
    EXPECT_EQ(result.gradients[i].select(0, 0).abs().max().item<float>(), 0);
    EXPECT_GT(result.gradients[i].select(0, 1).abs().max().item<float>(), 0);
    EXPECT_EQ(result.gradients[i].select(0, 2).abs().max().item<float>(), 0);
  }
}

TEST(ExpertFfn, OfBfloatMatchesFp64OfTheRoundedInputs) {
  for (const ExpertForm& form : {ExpertForm{}, kClippedForm, ExpertForm{.activation = Activation::kRelu}}) {
    // A bias that is added to rounded products may carry a value over the limit.
    const ExpertCase layer{"", choices(40, 3, -1, 6), 6, 64, 32, form, form.limit == 0};
    std::vector<at::Tensor> in = layer.inputs(at::kBFloat16), wide;
    in[1] = in[1].to(at::kFloat);
    for (const at::Tensor& tensor : in) wide.push_back(tensor.to(at::kDouble));
    const ExpertResult exact = differentiate([&](const auto& x) { return token_loop(layer, x, at::kBFloat16); }, wide);
    for (const ExpertKind kind : {ExpertKind::kThreads, ExpertKind::kLoop, ExpertKind::kGrouped}) {
      const ExpertResult got = differentiate([&](const auto& x) { return run_case_by(kind, layer, x); }, in);
      // Gate, up, product and rows are rounded to 8 bits, and so are their gradients.
      EXPECT_LT(result_error(got, exact), 0.02) << static_cast<int>(kind);
      for (size_t i = 0; i < in.size(); ++i) EXPECT_EQ(got.gradients[i].scalar_type(), in[i].scalar_type());
      EXPECT_EQ(got.y.scalar_type(), at::kBFloat16);
    }
  }
}

TEST(ExpertFfn, MixedTypesMultiplyInTheWiderOne) {
  const ExpertCase layer{"", choices(40, 3, -1, 6), 6, 64, 32, kClippedForm, true};
  for (const bool is_x_narrow : {true, false}) {
    std::vector<at::Tensor> in = layer.inputs(at::kFloat), wide;
    for (size_t i = 0; i < in.size(); ++i) {
      if (i != 1 && (i == 0) == is_x_narrow) in[i] = in[i].to(at::kBFloat16);
      wide.push_back(in[i].to(at::kDouble));
    }
    const ExpertResult exact =
        differentiate([&](const auto& x) { return token_loop(layer, x, in[0].scalar_type()); }, wide);
    for (const ExpertKind kind : {ExpertKind::kThreads, ExpertKind::kLoop}) {
      const ExpertResult got = differentiate([&](const auto& x) { return run_case_by(kind, layer, x); }, in);
      EXPECT_LT(result_error(got, exact), 0.01);
      EXPECT_EQ(got.y.scalar_type(), in[0].scalar_type());
      for (size_t i = 0; i < in.size(); ++i) EXPECT_EQ(got.gradients[i].scalar_type(), in[i].scalar_type());
      EXPECT_LT(relative_error(got.y, exact.y), is_x_narrow ? 0.01 : 1e-6);
    }
  }
}

TEST(ExpertFfn, GivenOutputsChangeNoBit) {
  for (const ExpertKind kind : {ExpertKind::kThreads, ExpertKind::kLoop}) {
    const ExpertCase layer{"", choices(60, 3, -1, 6), 6, 24, 32, {}, true};
    const ExpertPlan plan = plan_experts(layer.expert_NK, 6);
    const std::vector<at::Tensor> inputs = layer.inputs(at::kFloat);
    const auto run = [&](const std::vector<at::Tensor>& in, const ExpertOutputs& given) {
      return expert_ffn_by(kind, in[0], in[1], plan, expert_weights(in), layer.form, given);
    };
    const ExpertOutputs first = run(inputs, {});
    const ExpertResult formed = differentiate([&](const auto& in) { return run(in, {}).y_ND; }, inputs);
    for (const ExpertOutputs& given :
         {ExpertOutputs{first.gate_RF, {}, {}}, ExpertOutputs{{}, first.up_RF, {}},
          ExpertOutputs{first.gate_RF, first.up_RF, {}}, ExpertOutputs{{}, {}, first.y_ND}, first}) {
      EXPECT_TRUE(are_equal(differentiate([&](const auto& in) { return run(in, given).y_ND; }, inputs), formed));
    }
  }
}

TEST(ExpertFfn, FormsNothingWhereAllIsGiven) {
  const ExpertCase layer{"", choices(60, 3, 0, 6), 6, 24, 32};
  const ExpertPlan plan = plan_experts(layer.expert_NK, 6);
  std::vector<at::Tensor> in = layer.inputs(at::kFloat);
  for (at::Tensor& tensor : in) tensor.set_requires_grad(true);
  const ExpertOutputs first = expert_ffn(in[0], in[1], plan, expert_weights(in), {});
  EXPECT_FALSE(first.gate_RF.requires_grad());
  EXPECT_FALSE(first.up_RF.requires_grad());
  PeakMemory& memory = PeakMemory::installed();
  memory.reset();
  const ExpertOutputs second = expert_ffn(in[0], in[1], plan, expert_weights(in), {}, first);
  EXPECT_EQ(memory.peak(), 0);
  EXPECT_EQ(second.y_ND.const_data_ptr(), first.y_ND.const_data_ptr());
  EXPECT_TRUE(second.y_ND.requires_grad());
}

TEST(ExpertFfn, ComputesTheGradientsThatAreAskedForAndNoOthers) {
  const ExpertCase layer{"", choices(30, 2, -1, 4), 4, 16, 24, {}, true};
  for (const ExpertKind kind : {ExpertKind::kThreads, ExpertKind::kLoop}) {
    const std::vector<at::Tensor> inputs = layer.inputs(at::kFloat);
    const ExpertResult full = differentiate([&](const auto& in) { return run_case_by(kind, layer, in); }, inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::vector<at::Tensor> in = inputs;
      in[i] = inputs[i].clone().set_requires_grad(true);
      const at::Tensor y = run_case_by(kind, layer, in);
      const at::Tensor d = torch::autograd::grad({y}, {in[i]}, {normal(y.sizes(), 77, at::kFloat)})[0];
      EXPECT_TRUE(at::equal(d, full.gradients[i])) << i;
    }
  }
}

TEST(ExpertFfn, HasTheSameBitsInEveryRunAndOnAnyNumberOfThreadsThatShareExperts) {
  const ExpertCase layer{"", choices(300, 4, -1, 16), 16, 48, 40, {}, true};
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const ExpertResult one = differentiate_case(layer);
  at::set_num_threads(2);
  const ExpertResult two = differentiate_case(layer), again = differentiate_case(layer);
  at::set_num_threads(threads);
  EXPECT_TRUE(are_equal(two, again));
  EXPECT_TRUE(are_equal(one, two));
}

TEST(ExpertFfn, AnExpertWithMostRowsTakesAllThreads) {
  // 1000 rows in expert 0, then 40 each in ten others.
  const at::Tensor expert_NK = at::cat({at::zeros({1000}, at::kLong), at::arange(1, 11).repeat({40})}).view({-1, 1});
  const ExpertCase layer{"", expert_NK, 11, 64, 96};
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const ExpertResult one = differentiate_case(layer);
  at::set_num_threads(2);
  const ExpertResult two = differentiate_case(layer), again = differentiate_case(layer);
  at::set_num_threads(threads);
  EXPECT_TRUE(are_equal(two, again));
  EXPECT_LT(result_error(two, one), 1e-6);
}

TEST(ExpertFfn, ComputesChosenExpertsOnly) {
  // All experts for all tokens would make [512, 32, 32] floats, 2.1 MB, for gate alone. What is needed: gate and up,
  // and R rows of width 16 back to the tokens; in backward the same rows and the gradients of the weights, 0.2 MB.
  const ExpertCase layer{"", choices(512, 2, 0, 32), 32, 16, 32};
  const ExpertPlan plan = plan_experts(layer.expert_NK, 32);
  std::vector<at::Tensor> in = layer.inputs(at::kFloat);
  for (at::Tensor& tensor : in) tensor.set_requires_grad(true);
  PeakMemory& memory = PeakMemory::installed();
  memory.reset();
  expert_ffn(in[0], in[1], plan, expert_weights(in), {}).y_ND.sum().backward();
  EXPECT_LE(memory.largest(), 1024 * 32 * 4);
  EXPECT_LE(memory.peak(), 700'000);
}

TEST(ExpertFfn, RefusesShapesThatDisagree) {
  const ExpertCase layer{"", choices(6, 2, 0, 3), 3, 8, 16, {}, true};
  for (size_t i = 0; i < 8; ++i) {
    std::vector<at::Tensor> in = layer.inputs();
    in[i] = at::cat({in[i], in[i]}, -1);
    EXPECT_THROW(run_case(layer, in), ShapeError) << i;
    in[i] = i < 2 ? layer.inputs()[i][0] : layer.inputs()[i].to(at::kFloat);
    EXPECT_THROW(run_case(layer, in), ShapeError) << i;
  }
  std::vector<at::Tensor> in = layer.inputs();
  in[6] = at::Tensor();
  EXPECT_THROW(run_case(layer, in), ShapeError);
  EXPECT_THROW(run_case(layer, layer.inputs(), {normal({3, 16}, 1), {}, {}}), ShapeError);
}

}  // namespace
}  // namespace ballast
