// SPDX-License-Identifier: Apache-2.0
#include "ops/cross_entropy.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "errors/errors.h"
#include "ops/gradcheck.h"
#include "ops/peak_memory.h"

namespace ballast {
namespace {

/// Spec test point T1: an identity head makes the hidden states the logits.
at::Tensor t1_logits(at::ScalarType type) {
  return at::tensor({2.0, 0.0, -1.0, 0.5, 0.0, 1.0, 2.0, 3.0, 5.0, 5.0, 5.0, 5.0}, at::kDouble).view({3, 4}).to(type);
}

struct LossInputs {
  at::Tensor hidden, head, target, weight;
};

/// N = 3 rows x 10 positions, one target in four masked, some of those outside the vocabulary.
LossInputs loss_inputs(at::ScalarType type, int64_t vocab = 37) {
  const int64_t num_tokens = 30;
  LossInputs in{normal({num_tokens, 6}, 1, type), normal({vocab, 6}, 2, type),
                at::arange(num_tokens).mul(7).remainder(vocab), at::ones({num_tokens}, type).div_(23)};
  for (int64_t n = 0; n < num_tokens; n += 4) {
    in.weight[n] = 0;
    in.target[n] = n % 8 == 0 ? -100 : vocab + n;
  }
  in.weight[5] = 0.3;
  in.hidden.set_requires_grad(true);
  in.head.set_requires_grad(true);
  return in;
}

/// The plain composition in fp64: all logits at once.
at::Tensor plain_loss(const LossInputs& in, const CrossEntropyOptions& options) {
  at::Tensor logits = at::matmul(in.hidden.to(at::kDouble), in.head.to(at::kDouble).t()) * options.logits_scale;
  if (options.soft_cap > 0) logits = at::tanh(logits / options.soft_cap) * options.soft_cap;
  const at::Tensor log_z = at::logsumexp(logits, 1);
  const at::Tensor safe = in.target.clamp(0, in.head.size(0) - 1);
  const at::Tensor ce = log_z - logits.gather(1, safe.unsqueeze(1)).squeeze(1);
  return ((ce + options.z_loss_multiplier * log_z.square()) * in.weight.to(at::kDouble)).sum();
}

std::vector<CrossEntropyOptions> tilings(CrossEntropyOptions options) {
  std::vector<CrossEntropyOptions> all;
  options.rows = 3;
  options.length = 10;
  for (const int64_t tiles : {1, 2, 4}) {
    for (const bool seq_major : {false, true}) {
      for (const int64_t max_tile_tokens : {1024, 3}) {
        options.num_vocab_tiling = tiles;
        options.seq_major = seq_major;
        options.max_tile_tokens = max_tile_tokens;
        all.push_back(options);
      }
    }
  }
  return all;
}

std::vector<CrossEntropyOptions> loss_forms() {
  CrossEntropyOptions plain, with_z, capped;
  with_z.z_loss_multiplier = 0.01;
  capped.z_loss_multiplier = 0.01;
  capped.soft_cap = 3;
  capped.logits_scale = 0.7;
  return {plain, with_z, capped};
}

TEST(FusedCrossEntropy, MatchesTestPointT1) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    const double tolerance = type == at::kDouble ? 1e-9 : 3e-7;
    const at::Tensor hidden = t1_logits(type).set_requires_grad(true), head = at::eye(4, type);
    const at::Tensor weight = at::tensor({0.5, 0.5, 0.0}, type);
    CrossEntropyOptions options;
    options.z_loss_multiplier = 0.01;
    const CrossEntropyResult result =
        fused_cross_entropy(hidden, head, at::tensor({0, 3, 1}, at::kLong), weight, options);
    EXPECT_NEAR(result.loss.item<double>(), 0.477877174, tolerance);
    EXPECT_FALSE(result.ce_N.requires_grad() || result.z_N.requires_grad());
    const std::vector<double> ce = {0.342349582, 0.440189699, 0}, z = {0.054866016, 0.118349052, 0};
    for (int64_t n = 0; n < 3; ++n) {
      EXPECT_NEAR(result.ce_N[n].item<double>(), ce[static_cast<size_t>(n)], tolerance);
      EXPECT_NEAR(result.z_N[n].item<double>(), z[static_cast<size_t>(n)], tolerance);
    }
    const at::Tensor d = torch::autograd::grad({result.loss}, {hidden})[0];
    const at::Tensor expected = at::tensor({-0.128317016, 0.050301822, 0.018505006, 0.082933684, 0.017132178,
                                            0.046570089, 0.126590627, -0.155890998, 0.0, 0.0, 0.0, 0.0},
                                           at::kDouble)
                                    .view({3, 4});
    EXPECT_LT((d.to(at::kDouble) - expected).abs().max().item<double>(), tolerance);
  }
}

TEST(FusedCrossEntropy, EveryTilingGivesTheLossAndGradientsOfThePlainCompositionUnderACotangent) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    for (const CrossEntropyOptions& form : loss_forms()) {
      for (const CrossEntropyOptions& options : tilings(form)) {
        for (const double factor : {2.0, 1.0 / 23}) {
          const LossInputs in = loss_inputs(type);
          const at::Tensor loss = fused_cross_entropy(in.hidden, in.head, in.target, in.weight, options).loss * factor;
          const at::Tensor expected = plain_loss(in, options) * factor;
          const auto d = torch::autograd::grad({loss}, {in.hidden, in.head});
          const auto d_expected = torch::autograd::grad({expected}, {in.hidden, in.head});
          const double tolerance = type == at::kDouble ? 1e-13 : 1e-6;
          EXPECT_LT(relative_error(loss, expected), tolerance);
          EXPECT_LT(relative_error(d[0], d_expected[0]), tolerance);
          EXPECT_LT(relative_error(d[1], d_expected[1]), tolerance);
        }
      }
    }
  }
}

TEST(FusedCrossEntropy, GradientsMatchFiniteDifferences) {
  const LossInputs in = loss_inputs(at::kDouble, 11);
  for (const CrossEntropyOptions& options : loss_forms()) {
    EXPECT_LT(gradient_error(
                  [&](const auto& x) { return fused_cross_entropy(x[0], x[1], in.target, in.weight, options).loss; },
                  {in.hidden, in.head}),
              1e-8);
  }
}

TEST(FusedCrossEntropy, RowsOfEveryWidthMatchFp64) {
  for (const int64_t vocab : {1, 2, 15, 16, 63, 64, 65, 127, 1000}) {
    const LossInputs in = loss_inputs(at::kFloat, vocab);
    for (const CrossEntropyOptions& options : loss_forms()) {
      const at::Tensor loss = fused_cross_entropy(in.hidden, in.head, in.target, in.weight, options).loss;
      const auto d = torch::autograd::grad({loss}, {in.hidden, in.head});
      const auto d_expected = torch::autograd::grad({plain_loss(in, options)}, {in.hidden, in.head});
      EXPECT_LT(relative_error(loss, plain_loss(in, options)), 2e-6) << vocab;
      EXPECT_LT((d[0].to(at::kDouble) - d_expected[0]).abs().max().item<double>(), 1e-6) << vocab;
      EXPECT_LT((d[1].to(at::kDouble) - d_expected[1]).abs().max().item<double>(), 1e-6) << vocab;
    }
  }
}

TEST(FusedCrossEntropy, AllMaskedIsZeroWithZeroGradients) {
  LossInputs in = loss_inputs(at::kFloat);
  in.weight.zero_();
  in.target.fill_(-1);
  const CrossEntropyResult result = fused_cross_entropy(in.hidden, in.head, in.target, in.weight, {});
  EXPECT_EQ(result.loss.item<float>(), 0);
  const auto d = torch::autograd::grad({result.loss}, {in.hidden, in.head});
  EXPECT_EQ(d[0].abs().max().item<float>(), 0);
  EXPECT_EQ(d[1].abs().max().item<float>(), 0);
}

TEST(FusedCrossEntropy, AMaskedTokenMayHoldAnything) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    const LossInputs in = loss_inputs(type);
    {
      const at::NoGradGuard no_grad;
      in.hidden[0].fill_(NAN);
      in.hidden[4].fill_(INFINITY);
    }
    const CrossEntropyResult result = fused_cross_entropy(in.hidden, in.head, in.target, in.weight, {});
    const auto d = torch::autograd::grad({result.loss}, {in.hidden, in.head});
    EXPECT_TRUE(std::isfinite(result.loss.item<double>()));
    EXPECT_TRUE(at::isfinite(d[0]).all().item<bool>());
    EXPECT_TRUE(at::isfinite(d[1]).all().item<bool>());
    EXPECT_EQ(d[0][0].abs().max().item<double>(), 0);
    EXPECT_EQ(result.ce_N[0].item<double>(), 0);
  }
}

TEST(FusedCrossEntropy, RefusesACountedTargetOutsideTheVocabulary) {
  for (const int64_t bad : {-1, 37}) {
    const LossInputs in = loss_inputs(at::kFloat);
    in.target[1] = bad;
    try {
      fused_cross_entropy(in.hidden, in.head, in.target, in.weight, {});
      FAIL() << "no error";
    } catch (const NumericError& error) {
      EXPECT_NE(std::string(error.what()).find("at token 1, need 0..36"), std::string::npos) << error.what();
    }
  }
}

TEST(FusedCrossEntropy, InfiniteAndNanLogitsGiveANonFiniteLoss) {
  for (const double bad : {double{INFINITY}, double{NAN}}) {
    const at::Tensor hidden = t1_logits(at::kFloat);
    hidden[1][0] = bad;
    const at::Tensor loss =
        fused_cross_entropy(hidden, at::eye(4, at::kFloat), at::tensor({0, 3, 1}, at::kLong), at::ones({3}), {}).loss;
    EXPECT_FALSE(std::isfinite(loss.item<double>()));
  }
}

TEST(FusedCrossEntropy, WithoutGradModeOnlyTheForwardRuns) {
  const LossInputs in = loss_inputs(at::kFloat);
  const at::Tensor with = fused_cross_entropy(in.hidden, in.head, in.target, in.weight, {}).loss;
  const at::NoGradGuard no_grad;
  const at::Tensor without = fused_cross_entropy(in.hidden, in.head, in.target, in.weight, {}).loss;
  EXPECT_TRUE(with.requires_grad());
  EXPECT_FALSE(without.requires_grad());
  EXPECT_TRUE(at::equal(with, without));
}

TEST(FusedCrossEntropy, RepeatsBitForBit) {
  const auto run = [] {
    const LossInputs in = loss_inputs(at::kFloat, 1000);
    const at::Tensor loss = fused_cross_entropy(in.hidden, in.head, in.target, in.weight, {}).loss;
    return torch::autograd::grad({loss}, {in.hidden, in.head});
  };
  const auto first = run(), second = run();
  EXPECT_TRUE(at::equal(first[0], second[0]) && at::equal(first[1], second[1]));
}

TEST(FusedCrossEntropy, Bf16StaysWithinItsOwnRounding) {
  const LossInputs wide = loss_inputs(at::kFloat);
  for (const at::ScalarType head_type : {at::kBFloat16, at::kFloat}) {
    LossInputs in = wide;
    in.hidden = wide.hidden.detach().to(at::kBFloat16).set_requires_grad(true);
    in.head = wide.head.detach().to(at::kBFloat16).to(head_type).set_requires_grad(true);
    const CrossEntropyResult result = fused_cross_entropy(in.hidden, in.head, in.target, in.weight, {});
    EXPECT_EQ(result.loss.scalar_type(), at::kFloat);
    const auto d = torch::autograd::grad({result.loss}, {in.hidden, in.head});
    const auto d_expected = torch::autograd::grad({plain_loss(in, {})}, {in.hidden, in.head});
    EXPECT_LT(relative_error(result.loss, plain_loss(in, {})), head_type == at::kFloat ? 1e-6 : 0.01);
    EXPECT_EQ(d[0].scalar_type(), at::kBFloat16);
    EXPECT_EQ(d[1].scalar_type(), head_type);
    EXPECT_LT(relative_error(d[0], d_expected[0]), 0.02);
    EXPECT_LT(relative_error(d[1], d_expected[1]), head_type == at::kFloat ? 1e-6 : 0.02);
  }
}

TEST(FusedCrossEntropy, NeverHoldsTheLogitsOfAllTokens) {
  const int64_t num_tokens = 4096, vocab = 4000, width = 16;
  const at::Tensor hidden = normal({num_tokens, width}, 1, at::kFloat).set_requires_grad(true);
  const at::Tensor head = normal({vocab, width}, 2, at::kFloat).set_requires_grad(true);
  const at::Tensor target = at::arange(num_tokens).remainder(vocab), weight = at::ones({num_tokens});
  CrossEntropyOptions options;
  options.num_vocab_tiling = 8;
  PeakMemory& memory = PeakMemory::installed();
  memory.reset();
  fused_cross_entropy(hidden, head, target, weight, options).loss.backward();
  const int64_t tile_bytes = num_tokens / 8 * vocab * 4;
  EXPECT_GE(memory.largest(), tile_bytes);
  EXPECT_LT(memory.peak(), 2 * tile_bytes);
  options.num_vocab_tiling = 1;
  options.max_tile_tokens = 512;
  memory.reset();
  token_log_probs(hidden, head, target, options).sum().backward();
  EXPECT_LT(memory.peak(), 2 * tile_bytes);
}

TEST(TokenLogProbs, EqualTheNegativeCrossEntropyWithItsGradients) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    for (const CrossEntropyOptions& options : tilings({})) {
      LossInputs in = loss_inputs(type);
      in.target = at::where(in.weight.eq(0), at::full_like(in.target, -100), in.target);
      const at::Tensor log_probs = token_log_probs(in.hidden, in.head, in.target, options);
      const CrossEntropyResult fused = fused_cross_entropy(in.hidden, in.head, in.target, in.weight, options);
      EXPECT_TRUE(at::equal(log_probs, -fused.ce_N));
      const auto d = torch::autograd::grad({log_probs}, {in.hidden, in.head}, {-in.weight});
      const auto d_fused = torch::autograd::grad({fused.loss}, {in.hidden, in.head});
      EXPECT_LT(relative_error(d[0], d_fused[0]), 1e-7);
      EXPECT_LT(relative_error(d[1], d_fused[1]), 1e-7);
    }
  }
}

TEST(TokenLogProbs, GradientsMatchFiniteDifferencesForACotangentAToken) {
  const LossInputs in = loss_inputs(at::kDouble, 11);
  const at::Tensor target = at::where(in.weight.eq(0), at::full_like(in.target, -1), in.target);
  CrossEntropyOptions options;
  options.soft_cap = 3;
  EXPECT_LT(
      gradient_error([&](const auto& x) { return token_log_probs(x[0], x[1], target, options); }, {in.hidden, in.head}),
      1e-8);
}

TEST(FusedCrossEntropy, RefusesATilingThatDoesNotFit) {
  const LossInputs in = loss_inputs(at::kFloat);
  CrossEntropyOptions options;
  options.num_vocab_tiling = 0;
  EXPECT_THROW(fused_cross_entropy(in.hidden, in.head, in.target, in.weight, options), ShapeError);
  options.num_vocab_tiling = 2;
  options.seq_major = true;
  options.length = 7;
  EXPECT_THROW(fused_cross_entropy(in.hidden, in.head, in.target, in.weight, options), ShapeError);
  EXPECT_THROW(fused_cross_entropy(in.hidden, in.head.narrow(1, 0, 5), in.target, in.weight, {}), ShapeError);
}

}  // namespace
}  // namespace ballast
