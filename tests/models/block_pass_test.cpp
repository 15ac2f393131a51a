// SPDX-License-Identifier: Apache-2.0
#include "models/block_pass.h"

#include <gtest/gtest.h>

#include "errors/errors.h"
#include "ops/linear.h"
#include "ops/peak_memory.h"
#include "support/tiny_model.h"

namespace ballast {
namespace {

using testing::test_precision;

UnitPtr matrix_unit(int64_t width) {
  auto unit = c10::make_intrusive<ParameterUnit>(
      "unit", std::vector<ParameterSpec>{{.name = "w", .shape = {width, width}}, {.name = "unused", .shape = {width}}},
      std::vector<Buffer>{}, test_precision(at::kDouble), single_rank_world(), at::Device(at::kCPU));
  initialize_parameters({unit}, 3);
  return unit;
}

// tanh(x w), with a discrete decision taken from the values: which rows are kept.
BlockBody gated_body(const UnitPtr& unit, int* runs, int* counting_runs) {
  return [unit = unit.get(), runs, counting_runs](const std::vector<at::Tensor>& inputs, BlockPass& pass) {
    ++*runs;
    if (pass.counts()) ++*counting_runs;
    const at::Tensor h = at::tanh(at::matmul(inputs[0], unit->gather()[0]));
    const at::Tensor keeps = pass.decide([&] { return h.sum(-1, true).gt(0); });
    return std::vector<at::Tensor>{at::where(keeps, h, h * 0.5), h.square().mean()};
  };
}

TEST(RunBlock, RematerializedGradientsAreBitEqualToPlainOnes) {
  std::vector<at::Tensor> inputs, input_gradients, weight_gradients, values;
  for (const bool rematerializes : {false, true}) {
    const UnitPtr unit = matrix_unit(6);
    int runs = 0, counting_runs = 0;
    at::Tensor x = at::arange(24, at::kDouble).reshape({4, 6}).div(10).sub(1).set_requires_grad(true);
    const auto outputs = run_block(gated_body(unit, &runs, &counting_runs), {x}, rematerializes);
    const auto second = run_block(gated_body(unit, &runs, &counting_runs), {outputs[0]}, rematerializes);
    (second[0].sum() + 0.3 * outputs[1] + 0.7 * second[1]).backward();
    EXPECT_EQ(runs, rematerializes ? 4 : 2);
    EXPECT_EQ(counting_runs, 2) << "statistics must be handed out once";
    values.push_back(second[0].detach());
    input_gradients.push_back(x.grad());
    weight_gradients.push_back(unit->parameters()[0].gradient);
    EXPECT_FALSE(unit->parameters()[1].gradient.defined()) << "nothing reaches an unused parameter";
  }
  EXPECT_TRUE(at::equal(values[0], values[1]));
  EXPECT_TRUE(at::equal(input_gradients[0], input_gradients[1]));
  EXPECT_TRUE(at::equal(weight_gradients[0], weight_gradients[1]));
  EXPECT_GT(weight_gradients[0].abs().max().item<double>(), 0);
}

TEST(RunBlock, NestedBlocksGiveTheSameGradientsAndCountOnce) {
  std::vector<at::Tensor> gradients;
  for (const bool rematerializes : {false, true}) {
    const UnitPtr unit = matrix_unit(4);
    int runs = 0, counting_runs = 0;
    const BlockBody outer = [&](const std::vector<at::Tensor>& inputs, BlockPass&) {
      const auto inner = run_block(gated_body(unit, &runs, &counting_runs), inputs, rematerializes);
      return run_block(gated_body(unit, &runs, &counting_runs), {inner[0]}, rematerializes);
    };
    const at::Tensor x = at::linspace(-1, 1, 8, at::kDouble).reshape({2, 4}).set_requires_grad(true);
    run_block(outer, {x}, rematerializes)[0].sum().backward();
    EXPECT_EQ(counting_runs, 2);
    gradients.push_back(unit->parameters()[0].gradient);
  }
  EXPECT_TRUE(at::equal(gradients[0], gradients[1]));
}

TEST(RunBlock, AlsoReachesParametersWhenNoInputRequiresGrad) {
  const UnitPtr unit = matrix_unit(4);
  int runs = 0, counting_runs = 0;
  const at::Tensor x = at::ones({2, 4}, at::kDouble);
  run_block(gated_body(unit, &runs, &counting_runs), {x}, true)[0].sum().backward();
  EXPECT_TRUE(unit->parameters()[0].gradient.defined());
}

TEST(RunBlock, SideOutputsReachLaterBlocksUnderRematerialization) {
  std::vector<at::Tensor> gradients;
  for (const bool rematerializes : {false, true}) {
    const UnitPtr unit = matrix_unit(4);
    const BlockBody writer = [unit = unit.get()](const std::vector<at::Tensor>& inputs, BlockPass&) {
      const at::Tensor keys = at::matmul(inputs[0], unit->gather()[0]);
      return std::vector<at::Tensor>{inputs[0] + keys, keys};
    };
    const BlockBody reader = [](const std::vector<at::Tensor>& inputs, BlockPass&) {
      return std::vector<at::Tensor>{inputs[0] * at::sigmoid(inputs[1])};
    };
    const at::Tensor x = at::linspace(-1, 1, 8, at::kDouble).reshape({2, 4}).set_requires_grad(true);
    const auto written = run_block(writer, {x}, rematerializes);
    run_block(reader, {written[0], written[1]}, rematerializes)[0].sum().backward();
    gradients.push_back(unit->parameters()[0].gradient);
  }
  EXPECT_TRUE(at::equal(gradients[0], gradients[1]));
}

// Two products, each told by its name; `formed` counts those that are not given.
BlockBody named_body(const UnitPtr& unit, std::vector<int>* formed) {
  return [unit = unit.get(), formed](const std::vector<at::Tensor>& inputs, BlockPass& pass) {
    const at::Tensor weight = unit->gather()[0];
    const auto product = [&](NamedTensor name, size_t number, const at::Tensor& x) {
      return pass.named({name}, [&](const BlockPass::Tensors& given) -> BlockPass::Tensors {
        if (given.empty() || !given[0].defined()) ++(*formed)[number];
        return {linear(x, weight, {}, given)};
      })[0];
    };
    const at::Tensor h = at::tanh(product(NamedTensor::kQueryProj, 0, inputs[0]));
    const at::Tensor keeps = pass.decide([&] { return h.gt(0); });
    return std::vector<at::Tensor>{product(NamedTensor::kOutProj, 1, at::where(keeps, h, h * 0.5)).square()};
  };
}

TEST(RunBlock, FormsKeptTensorsOnceAndKeepsGradientsBitEqual) {
  using enum NamedTensor;
  std::vector<at::Tensor> gradients, input_gradients;
  const auto step = [&](bool rematerializes, const NamedTensors& kept) {
    const UnitPtr unit = matrix_unit(6);
    std::vector<int> formed(2, 0);
    const at::Tensor x = at::linspace(-1, 1, 24, at::kDouble).reshape({4, 6}).set_requires_grad(true);
    run_block(named_body(unit, &formed), {x}, rematerializes, kept)[0].sum().backward();
    gradients.push_back(unit->parameters()[0].gradient);
    input_gradients.push_back(x.grad());
    return formed;
  };
  EXPECT_EQ(step(false, {}), (std::vector<int>{1, 1}));
  EXPECT_EQ(step(true, {}), (std::vector<int>{2, 2}));
  EXPECT_EQ(step(true, {kQueryProj}), (std::vector<int>{1, 2}));
  EXPECT_EQ(step(true, {kOutProj, kMlpwo}), (std::vector<int>{2, 1}));
  EXPECT_EQ(step(true, {kQueryProj, kOutProj}), (std::vector<int>{1, 1}));
  for (size_t i = 1; i < gradients.size(); ++i) {
    EXPECT_TRUE(at::equal(gradients[i], gradients[0])) << i;
    EXPECT_TRUE(at::equal(input_gradients[i], input_gradients[0])) << i;
  }
}

TEST(RunBlock, GivesKeptMemoryBackAfterTheBackwardPassWhileTheLossLives) {
  const UnitPtr unit = matrix_unit(6);
  std::vector<int> formed(2, 0);
  const at::Tensor x = at::ones({4, 6}, at::kDouble).set_requires_grad(true);
  PeakMemory& memory = PeakMemory::installed();
  const int64_t before = memory.live();
  const at::Tensor loss = run_block(named_body(unit, &formed), {x}, true, {NamedTensor::kQueryProj})[0].sum();
  EXPECT_GT(memory.live() - before, 4 * 6 * 8);
  loss.backward();
  const int64_t gradients = (4 * 6 + 6 * 6) * 8;
  EXPECT_LT(memory.live() - before, gradients + 4 * 6 * 8) << "the loss and the sinks alone";
}

TEST(RunBlock, PassesExceptionsOfTheSecondRunOn) {
  int runs = 0;
  const BlockBody body = [&](const std::vector<at::Tensor>& inputs, BlockPass&) -> std::vector<at::Tensor> {
    if (++runs == 2) throw NumericError({.where = "test", .what = "second run", .got = {}, .need = {}, .attempt = {}});
    return {inputs[0] * 2};
  };
  const at::Tensor x = at::ones({2}, at::kDouble).set_requires_grad(true);
  const at::Tensor y = run_block(body, {x}, true)[0].sum();
  EXPECT_THROW(y.backward(), NumericError);
}

}  // namespace
}  // namespace ballast
