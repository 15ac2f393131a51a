// SPDX-License-Identifier: Apache-2.0
#include "ops/attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "errors/errors.h"
#include "ops/attention_kinds.h"
#include "ops/gradcheck.h"
#include "ops/peak_memory.h"

namespace ballast {
namespace {

/// A batch with its masks spelled out.
struct AttentionCase {
  std::string name;
  std::vector<int32_t> segments;
  int64_t rows = 1, length = 0, window = 0;
  int64_t num_heads = 4, num_groups = 2, key_width = 8, value_width = 8;
  double soft_cap = 0;
  bool has_sinks = false;
};

std::vector<int32_t> repeated(const std::vector<std::pair<int32_t, int64_t>>& runs) {
  std::vector<int32_t> segments;
  for (const auto& [document, count] : runs) segments.insert(segments.end(), static_cast<size_t>(count), document);
  return segments;
}

std::vector<AttentionCase> attention_cases() {
  const std::vector<int32_t> whole(2 * 9, 1);
  const std::vector<int32_t> packed = repeated({{1, 5}, {2, 3}, {0, 1}, {0, 9}, {7, 9}});
  const std::vector<int32_t> longer = repeated({{1, 150}, {2, 40}, {0, 10}});
  return {{.name = "whole", .segments = whole, .rows = 2, .length = 9},
          {.name = "packed, padded, an empty row", .segments = packed, .rows = 3, .length = 9},
          {.name = "one head a group", .segments = packed, .rows = 3, .length = 9, .num_heads = 3, .num_groups = 3},
          {.name = "narrow values", .segments = packed, .rows = 3, .length = 9, .key_width = 12, .value_width = 5},
          {.name = "wide values", .segments = whole, .rows = 2, .length = 9, .key_width = 6, .value_width = 10},
          {.name = "window", .segments = longer, .rows = 1, .length = 200, .window = 50, .num_heads = 2},
          {.name = "window of one", .segments = repeated({{3, 70}, {4, 10}}), .rows = 1, .length = 80, .window = 1},
          {.name = "sinks", .segments = packed, .rows = 3, .length = 9, .has_sinks = true},
          {.name = "window and sinks", .segments = longer, .rows = 1, .length = 200, .window = 33, .has_sinks = true},
          {.name = "soft cap", .segments = packed, .rows = 3, .length = 9, .soft_cap = 1.5},
          {.name = "all at once",
           .segments = longer,
           .rows = 1,
           .length = 200,
           .window = 20,
           .key_width = 6,
           .value_width = 4,
           .soft_cap = 2,
           .has_sinks = true}};
}

struct AttentionInputs {
  at::Tensor q, k, v, sinks;
  std::vector<at::Tensor> all() const {
    return sinks.defined() ? std::vector<at::Tensor>{q, k, v, sinks} : std::vector<at::Tensor>{q, k, v};
  }
};

AttentionInputs inputs_of(const AttentionCase& c, at::ScalarType type = at::kDouble) {
  const auto leaf = [&](at::IntArrayRef sizes, uint64_t seed) {
    return normal(sizes, seed, type).set_requires_grad(true);
  };
  return {leaf({c.rows, c.length, c.num_heads, c.key_width}, 1), leaf({c.rows, c.length, c.num_groups, c.key_width}, 2),
          leaf({c.rows, c.length, c.num_groups, c.value_width}, 3),
          c.has_sinks ? leaf({c.num_heads}, 4) : at::Tensor()};
}

AttentionOptions options_of(const AttentionCase& c) {
  return {.scale = 0.6, .soft_cap = c.soft_cap};
}

std::shared_ptr<const AttentionPlan> plan_of(const AttentionCase& c) {
  return std::make_shared<AttentionPlan>(make_attention_plan(c.segments, c.rows, c.length, c.window));
}

/// Softmax over an explicit [B, H, T, T + 1] score table in fp64; the last column is the sink.
at::Tensor reference(const AttentionCase& c, const AttentionInputs& in) {
  const at::Tensor segments = at::tensor(c.segments, at::kInt).view({c.rows, c.length});
  const at::Tensor t = at::arange(c.length).unsqueeze(1), s = at::arange(c.length).unsqueeze(0);
  at::Tensor visible = s.le(t);
  if (c.window > 0) visible = visible.logical_and(s.gt(t - c.window));
  visible = visible.logical_and(segments.unsqueeze(2).eq(segments.unsqueeze(1))).unsqueeze(1);
  const int64_t shared = c.num_heads / c.num_groups;
  const at::Tensor q = in.q.to(at::kDouble).transpose(1, 2);
  const at::Tensor k = in.k.to(at::kDouble).repeat_interleave(shared, 2).transpose(1, 2);
  const at::Tensor v = in.v.to(at::kDouble).repeat_interleave(shared, 2).transpose(1, 2);
  at::Tensor scores = at::matmul(q, k.transpose(2, 3)) * options_of(c).scale;
  if (c.soft_cap > 0) scores = at::tanh(scores / c.soft_cap) * c.soft_cap;
  scores = scores.masked_fill(visible.logical_not(), -INFINITY);
  if (in.sinks.defined()) {
    scores = at::cat({scores, in.sinks.to(at::kDouble).view({1, -1, 1, 1}).expand({c.rows, -1, c.length, 1})}, -1);
  }
  const at::Tensor probs = at::softmax(scores, -1).narrow(-1, 0, c.length);
  return at::matmul(probs, v).transpose(1, 2).masked_fill(segments.eq(0).view({c.rows, c.length, 1, 1}), 0);
}

std::vector<AttentionKind> kinds_for(const AttentionCase& c) {
  std::vector<AttentionKind> kinds = {AttentionKind::kBlocks};
  if (c.soft_cap == 0) kinds.push_back(AttentionKind::kFlash);
  if (c.soft_cap == 0 && !c.has_sinks) kinds.push_back(AttentionKind::kMasked);
  return kinds;
}

/// The largest relative gap of output and gradients to the reference's.
double gap_to_reference(AttentionKind kind, const AttentionCase& c, const AttentionInputs& in,
                        const AttentionOptions& options) {
  const at::Tensor out = attention_by(kind, in.q, in.k, in.v, plan_of(c), options, in.sinks);
  const at::Tensor expected = reference(c, in);
  const at::Tensor cotangent = normal(expected.sizes(), 9, in.q.scalar_type());
  const auto d = torch::autograd::grad({out}, in.all(), {cotangent});
  const auto d_expected = torch::autograd::grad({expected}, in.all(), {cotangent.to(at::kDouble)});
  EXPECT_EQ(out.scalar_type(), in.q.scalar_type()) << c.name;
  double worst = relative_error(out, expected);
  for (size_t i = 0; i < d.size(); ++i) {
    EXPECT_EQ(d[i].scalar_type(), in.q.scalar_type()) << c.name;
    worst = std::max(worst, relative_error(d[i], d_expected[i]));
  }
  return worst;
}

TEST(Attention, EveryKindMatchesTheExplicitSoftmax) {
  for (const AttentionCase& c : attention_cases()) {
    for (const AttentionKind kind : kinds_for(c)) {
      EXPECT_LT(gap_to_reference(kind, c, inputs_of(c), options_of(c)), 1e-12)
          << c.name << ", kind " << static_cast<int>(kind);
      EXPECT_LT(gap_to_reference(kind, c, inputs_of(c, at::kFloat), options_of(c)), 1e-5)
          << c.name << ", kind " << static_cast<int>(kind);
    }
  }
}

TEST(Attention, GradientsMatchFiniteDifferences) {
  AttentionCase c{.name = "small",
                  .segments = repeated({{1, 3}, {2, 2}, {0, 1}}),
                  .rows = 1,
                  .length = 6,
                  .num_heads = 2,
                  .num_groups = 1,
                  .key_width = 3,
                  .value_width = 2,
                  .has_sinks = true};
  for (const double soft_cap : {0.0, 1.5}) {
    c.soft_cap = soft_cap;
    const auto plan = plan_of(c);
    EXPECT_LT(gradient_error([&](const auto& in) { return attention(in[0], in[1], in[2], plan, options_of(c), in[3]); },
                             inputs_of(c).all()),
              1e-8);
  }
}

TEST(Attention, Bf16StaysWithinItsOwnRounding) {
  for (const AttentionCase& c : attention_cases()) {
    for (const bool computes_in_fp32 : {false, true}) {
      AttentionOptions options = options_of(c);
      options.computes_in_fp32 = computes_in_fp32;
      const AttentionKind kind = c.soft_cap > 0 ? AttentionKind::kBlocks : AttentionKind::kFlash;
      EXPECT_LT(gap_to_reference(kind, c, inputs_of(c, at::kBFloat16), options), 0.02) << c.name;
    }
  }
}

TEST(Attention, PackedDocumentsEqualTheSameDocumentsAlone) {
  const AttentionCase packed{
      .name = "packed", .segments = repeated({{1, 30}, {2, 50}, {3, 20}}), .rows = 1, .length = 100};
  const AttentionInputs in = inputs_of(packed, at::kFloat);
  const at::Tensor together = attention(in.q, in.k, in.v, plan_of(packed), options_of(packed), at::Tensor());
  for (const auto& [begin, count] : std::vector<std::pair<int64_t, int64_t>>{{0, 30}, {30, 50}, {80, 20}}) {
    const AttentionCase alone{.name = "alone", .segments = repeated({{1, count}}), .rows = 1, .length = count};
    const at::Tensor own = attention(in.q.narrow(1, begin, count), in.k.narrow(1, begin, count),
                                     in.v.narrow(1, begin, count), plan_of(alone), options_of(alone), at::Tensor());
    EXPECT_TRUE(at::equal(together.narrow(1, begin, count), own));
  }
}

TEST(Attention, PaddingHasNoOutputNoGradientAndNoInfluence) {
  const AttentionCase c{
      .name = "padded", .segments = repeated({{1, 4}, {0, 2}, {0, 6}}), .rows = 2, .length = 6, .has_sinks = true};
  for (const double soft_cap : {0.0, 2.0}) {
    AttentionOptions options = options_of(c);
    options.soft_cap = soft_cap;
    AttentionInputs in = inputs_of(c);
    {
      const at::NoGradGuard no_grad;
      for (const at::Tensor& x : {in.q, in.k, in.v}) x.select(0, 1).fill_(NAN);
    }
    const at::Tensor out = attention(in.q, in.k, in.v, plan_of(c), options, in.sinks);
    EXPECT_EQ(out.select(0, 1).abs().max().item<double>(), 0);
    EXPECT_EQ(out[0].narrow(0, 4, 2).abs().max().item<double>(), 0);
    const auto d = torch::autograd::grad({out}, in.all(), {at::ones_like(out)});
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(d[i].select(0, 1).abs().max().item<double>(), 0);
      EXPECT_EQ(d[i][0].narrow(0, 4, 2).abs().max().item<double>(), 0);
    }
    EXPECT_TRUE(at::isfinite(d[3]).all().item<bool>());
  }
}

TEST(Attention, RepeatsBitForBit) {
  const AttentionCase c{.name = "many documents",
                        .segments = repeated({{1, 40}, {2, 8}, {3, 33}, {4, 21}, {5, 26}}),
                        .rows = 1,
                        .length = 128};
  const AttentionInputs in = inputs_of(c, at::kFloat);
  const auto run = [&] {
    const at::Tensor out = attention(in.q, in.k, in.v, plan_of(c), options_of(c), at::Tensor());
    auto tensors = torch::autograd::grad({out}, in.all(), {at::ones_like(out)});
    tensors.push_back(out.detach());
    return tensors;
  };
  const auto first = run(), second = run();
  for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(at::equal(first[i], second[i]));
}

TEST(Attention, ManyDocumentsSharedAmongThreadsGiveTheSameBits) {
  std::vector<std::pair<int32_t, int64_t>> runs;
  for (int32_t document = 1; document <= 32; ++document) runs.emplace_back(document, 8);
  const AttentionCase c{.name = "tiny documents", .segments = repeated(runs), .rows = 1, .length = 256};
  const AttentionInputs in = inputs_of(c, at::kFloat);
  const auto run = [&](int num_threads) {
    const int kept = at::get_num_threads();
    at::set_num_threads(num_threads);
    const at::Tensor out = attention(in.q, in.k, in.v, plan_of(c), options_of(c), at::Tensor());
    auto tensors = torch::autograd::grad({out}, in.all(), {at::ones_like(out)});
    tensors.push_back(out.detach());
    at::set_num_threads(kept);
    return tensors;
  };
  const auto one = run(1), two = run(2);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i], two[i]));
}

TEST(Attention, NeverHoldsATableOfAllScores) {
  const int64_t length = 2048;
  AttentionCase c{.name = "long",
                  .segments = {},
                  .rows = 1,
                  .length = length,
                  .num_heads = 4,
                  .num_groups = 2,
                  .key_width = 16,
                  .value_width = 16};
  const int64_t one_table_of_a_head = length * length * 4;
  PeakMemory& memory = PeakMemory::installed();
  for (const auto& [window, soft_cap, runs] :
       std::vector<std::tuple<int64_t, double, std::vector<std::pair<int32_t, int64_t>>>>{
           {0, 0, {{1, length}}},
           {0, 0, {{1, 1500}, {2, 500}, {0, 48}}},
           {128, 0, {{1, length}}},
           {128, 0, {{1, 1500}, {2, 548}}},
           {128, 5, {{1, length}}},
           {0, 5, {{1, length}}}}) {
    c.segments = repeated(runs);
    c.window = window;
    c.soft_cap = soft_cap;
    const AttentionInputs in = inputs_of(c, at::kFloat);
    const auto plan = plan_of(c);
    memory.reset();
    const at::Tensor out = attention(in.q, in.k, in.v, plan, options_of(c), at::Tensor());
    const auto d = torch::autograd::grad({out}, in.all(), {at::ones_like(out)});
    EXPECT_GT(memory.peak(), out.numel() * 4);  // the counter counts
    EXPECT_LT(memory.peak(), one_table_of_a_head) << "window " << window << ", cap " << soft_cap;
  }
}

TEST(Attention, RefusesOperandsThatDoNotFit) {
  const AttentionCase c{.name = "whole", .segments = repeated({{1, 4}}), .rows = 1, .length = 4};
  const AttentionInputs in = inputs_of(c);
  const auto plan = plan_of(c);
  EXPECT_THROW(attention(in.q.narrow(2, 0, 3), in.k, in.v, plan, options_of(c), at::Tensor()), ShapeError);
  EXPECT_THROW(attention(in.q, in.k.to(at::kFloat), in.v, plan, options_of(c), at::Tensor()), ShapeError);
  EXPECT_THROW(attention(in.q, in.k, in.v.narrow(1, 0, 3), plan, options_of(c), at::Tensor()), ShapeError);
  EXPECT_THROW(attention(in.q, in.k, in.v, plan, options_of(c), normal({3}, 1)), ShapeError);
}

}  // namespace
}  // namespace ballast
