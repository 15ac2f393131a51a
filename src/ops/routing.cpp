// SPDX-License-Identifier: Apache-2.0
#include "ops/routing.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>

#include "errors/errors.h"
#include "ops/arguments.h"

namespace ballast {
namespace {

/// log(softplus(z)). Far below zero softplus is e^z and its logarithm z, which the direct form could not reach.
at::Tensor log_softplus(const at::Tensor& z) {
  constexpr double kSmall = -15.0;
  const at::Tensor direct = at::softplus(z.clamp_min(kSmall), 1, /*threshold=*/40).log();
  return at::where(z < kSmall, z - 0.5 * z.clamp_max(kSmall).exp(), direct);
}

/// Logarithm of the score, up to a constant a token.
at::Tensor log_scores(const at::Tensor& logits, RouterScore score) {
  if (score == RouterScore::kSigmoid) return at::log_sigmoid(logits);
  if (score == RouterScore::kSqrtSoftplus) return 0.5 * log_softplus(logits);
  return logits;
}

/// Puts expert e of score s into `best`, the `count` largest so far by falling score. Asked in rising order of e, so an
/// equal score goes behind.
template <typename T>
void insert_choice(T s, int64_t e, int64_t count, T* best_score, int64_t* best) {
  int64_t place = count;
  for (; place > 0 && s > best_score[place - 1]; --place) {
    best_score[place] = best_score[place - 1];
    best[place] = best[place - 1];
  }
  best_score[place] = s;
  best[place] = e;
}

/// The `count` largest of score[e] over the experts e in [begin, end), joined to the `found` ones in `best`, which has
/// room for count + 1.
template <typename T>
int64_t choose_among(const T* score, int64_t begin, int64_t end, int64_t count, int64_t found, T* best_score,
                     int64_t* best) {
  for (int64_t e = begin; e < end; ++e) {
    if (found < count) {
      insert_choice(score[e], e, found++, best_score, best);
    } else if (score[e] > best_score[count - 1]) {
      insert_choice(score[e], e, count - 1, best_score, best);
    }
  }
  return found;
}

/// Sum of the two largest scores of a group.
template <typename T>
T two_best(const T* score, int64_t size) {
  T first = std::max(score[0], score[1]), second = std::min(score[0], score[1]);
  for (int64_t i = 2; i < size; ++i) {
    second = std::max(second, std::min(first, score[i]));
    first = std::max(first, score[i]);
  }
  return first + second;
}

template <typename T>
T rank_of_group(const T* score, int64_t size, GroupScore kind) {
  return kind == GroupScore::kBest ? *std::max_element(score, score + size) : two_best(score, size);
}

template <typename T>
void choose_rows(const at::Tensor& score_NE, const RouterSpec& router, const at::Tensor& expert_NK) {
  const int64_t num_experts = router.num_experts, count = router.num_experts_per_tok;
  const int64_t num_groups = std::max<int64_t>(router.num_groups, 1), group_size = num_experts / num_groups;
  const int64_t num_kept = router.num_groups > 0 ? router.num_kept_groups : 1;
  const T* scores = score_NE.const_data_ptr<T>();
  auto* experts = expert_NK.mutable_data_ptr<int64_t>();
  at::parallel_for(0, score_NE.size(0), /*grain_size=*/256, [&](int64_t begin, int64_t end) {
    const auto room = static_cast<size_t>(std::max(count, num_kept) + 1);
    std::vector<T> best_score(room), group_score(static_cast<size_t>(num_groups));
    std::vector<int64_t> best(room), groups(room);
    for (int64_t n = begin; n < end; ++n) {
      const T* score = scores + n * num_experts;
      groups[0] = 0;
      if (num_groups > 1) {
        for (int64_t g = 0; g < num_groups; ++g) {
          group_score[static_cast<size_t>(g)] = rank_of_group(score + g * group_size, group_size, router.group_score);
        }
        choose_among(group_score.data(), 0, num_groups, num_kept, 0, best_score.data(), groups.data());
        std::sort(groups.begin(), groups.begin() + num_kept);  // experts are asked in rising order
      }
      int64_t found = 0;
      for (int64_t i = 0; i < num_kept; ++i) {
        const int64_t first = groups[static_cast<size_t>(i)] * group_size;
        found = choose_among(score, first, first + group_size, count, found, best_score.data(), best.data());
      }
      std::copy(best.begin(), best.begin() + count, experts + n * count);
    }
  });
}

/// The same by tensor operations, for other devices: a stable sort keeps the lower of two equals in front.
at::Tensor choose_by_sorting(const at::Tensor& score_NE, const RouterSpec& router) {
  at::Tensor allowed = score_NE;
  if (router.num_groups > 1) {
    const int64_t rows = score_NE.size(0), size = router.num_experts / router.num_groups;
    const at::Tensor grouped = score_NE.view({rows, router.num_groups, size});
    const at::Tensor ranks =
        router.group_score == GroupScore::kBest ? grouped.amax(-1) : std::get<0>(grouped.topk(2, -1)).sum(-1);
    const at::Tensor kept =
        std::get<1>(at::sort(ranks, /*stable=*/true, -1, /*descending=*/true)).narrow(1, 0, router.num_kept_groups);
    const at::Tensor is_kept = at::zeros_like(ranks, at::kBool).scatter_(1, kept, true);
    allowed = grouped.masked_fill(is_kept.logical_not().unsqueeze(-1), -std::numeric_limits<double>::infinity())
                  .view_as(score_NE);
  }
  return std::get<1>(at::sort(allowed, /*stable=*/true, -1, /*descending=*/true))
      .narrow(1, 0, router.num_experts_per_tok)
      .contiguous();
}

}  // namespace

at::Tensor router_scores(const at::Tensor& logits_NE, RouterScore score) {
  switch (score) {
    case RouterScore::kLogits:
      return logits_NE;
    case RouterScore::kSoftmax:
      return at::softmax(logits_NE, -1);
    case RouterScore::kSigmoid:
      return at::sigmoid(logits_NE);
    case RouterScore::kSqrtSoftplus:
      return (0.5 * log_softplus(logits_NE)).exp();
  }
  BALLAST_CHECK(false, "unknown router score");
}

at::Tensor router_shares(const at::Tensor& logits_NE, RouterScore score) {
  return at::softmax(log_scores(logits_NE, score), -1);
}

at::Tensor choose_experts(const at::Tensor& score_NE, const RouterSpec& router) {
  const at::NoGradGuard no_grad;
  const bool is_limited = router.num_groups > 1;
  const int64_t smallest = router.group_score == GroupScore::kTwoBest ? 2 : 1;
  const int64_t reach =
      is_limited ? router.num_kept_groups * (router.num_experts / router.num_groups) : router.num_experts;
  if (score_NE.dim() != 2 || score_NE.size(1) != router.num_experts || router.num_experts_per_tok < 1 ||
      router.num_experts_per_tok > reach || (is_limited && router.num_experts < smallest * router.num_groups)) {
    shape_fault("ops.choose_experts", "the choice does not fit the scores",
                c10::str("scores ", score_NE.sizes(), ", num_experts_per_tok ", router.num_experts_per_tok),
                c10::str("[N, ", router.num_experts, "], at most ", reach, " experts a token"));
  }
  const at::ScalarType type = score_NE.scalar_type();
  if (!score_NE.is_cpu() || (type != at::kFloat && type != at::kDouble)) return choose_by_sorting(score_NE, router);
  const at::Tensor expert_NK =
      at::empty({score_NE.size(0), router.num_experts_per_tok}, score_NE.options().dtype(at::kLong));
  if (type == at::kFloat) {
    choose_rows<float>(score_NE.contiguous(), router, expert_NK);
  } else {
    choose_rows<double>(score_NE.contiguous(), router, expert_NK);
  }
  return expert_NK;
}

at::Tensor routing_weights(const at::Tensor& logits_NE, const at::Tensor& expert_NK, const RouterSpec& router) {
  const at::Tensor index_NK = expert_NK.clamp_min(0);
  const bool normalizes = router.normalizes || router.score == RouterScore::kLogits;
  at::Tensor weight_NK;
  if (normalizes) {
    // Gathering first leaves the function of E numbers a token to the K that matter.
    weight_NK = at::softmax(log_scores(logits_NE.gather(1, index_NK), router.score), -1);
  } else if (router.score == RouterScore::kSoftmax) {
    weight_NK = at::softmax(logits_NE, -1).gather(1, index_NK);
  } else {
    weight_NK = router_scores(logits_NE.gather(1, index_NK), router.score);
  }
  return router.scaling_factor == 1.0 ? weight_NK : weight_NK * router.scaling_factor;
}

}  // namespace ballast
