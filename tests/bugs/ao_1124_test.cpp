// SPDX-License-Identifier: Apache-2.0
// bfloat16 weights that do not move at a small rate: pytorch/ao#1124, meta-pytorch/torchtune#2254.
#include "bugs/bug_run.h"
#include "support/tiny_model.h"
#include "train/step.h"

namespace ballast::testing {
namespace {

// A step of AdamW moves a weight by about the rate, 1e-5. Weights of 1/16 lie 2^-12 = 2.4e-4 apart in bfloat16, so
// rounding after each step would bring every one of them back.
TEST(Ao1124, WeightsReachNewBFloat16ValuesThroughTheirFloat32Masters) {
  Precision precision = test_precision(at::kFloat);
  precision.weight = at::kBFloat16;
  Decoder decoder(tiny_spec(), precision, single_rank_world(), at::Device(at::kCPU), {});
  initialize_parameters(decoder.units(), 7);
  const auto rounded = [&] {
    std::vector<at::Tensor> values;
    for (const UnitPtr& unit : decoder.units()) {
      for (const Parameter& parameter : unit->parameters()) {
        EXPECT_EQ(parameter.master.scalar_type(), at::kFloat) << parameter.spec.name;
        if (parameter.master.dim() > 1) values.push_back(parameter.master.detach().to(at::kBFloat16));
      }
    }
    return values;
  };
  StepOptions options;
  options.schedule.learning_rate = 1e-5;
  options.schedule.schedule_steps = 100;
  options.schedule.warmup_steps_fraction = 0;
  options.schedule.learning_rate_final_fraction = 1;
  TrainStep step(decoder, single_rank_world(), options);
  const std::vector<at::Tensor> before = rounded();
  for (int64_t i = 0; i < 100; ++i) {
    StepNumbers numbers = step.accumulate(tiny_batch(2, 12), i);
    step.update(numbers);
  }
  const std::vector<at::Tensor> after = rounded();
  // Ids that the batch does not hold have no gradient in the embedding, so their rows stay.
  for (size_t i = 1; i < before.size(); ++i) {
    const double moved = before[i].ne(after[i]).to(at::kDouble).mean().item<double>();
    EXPECT_GT(moved, 0.5) << "matrix " << i;
  }
}

TEST(Ao1124, ARunInBFloat16LearnsAsMuchAsOneInFloat32) {
  const Words keys = {"learning_rate=1e-5", "steps=100", "warmup_steps_fraction=0", "enable_tensorboard=false"};
  const auto drop = [&](const Words& types) {
    const ProgramFolder folder;
    const auto losses = series(records_of(folder, tiny_run(joined(keys, types))), "learning/loss");
    return losses.front() - losses.back();
  };
  const double exact = drop({"weight_dtype=float32"});
  EXPECT_GT(exact, 1e-3);
  EXPECT_NEAR(drop({"weight_dtype=bfloat16"}) / exact, 1.0, 0.1);
}

}  // namespace
}  // namespace ballast::testing
