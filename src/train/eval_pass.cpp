// SPDX-License-Identifier: Apache-2.0
#include "train/eval_pass.h"

#include <chrono>

#include "train/micro_batches.h"
#include "train/step.h"

namespace ballast {

EvalTotals evaluate(Decoder& decoder, BatchSource& source, const World& world, const EvalOptions& options,
                    const EvalObserver& observer) {
  const at::NoGradGuard no_grad;
  EvalTotals totals;
  source.reset();
  for (int64_t index = 0; options.max_batches <= 0 || index < options.max_batches; ++index) {
    const auto start = std::chrono::steady_clock::now();
    const std::optional<HostBatch> batch = source.next();
    if (!batch) break;
    const std::vector<MicroBatch> parts = split_batch(*batch, 1, options.batch_rows, AccumulationSplit::kContiguous);
    const StepDivisors divisors = step_divisors(parts, decoder.spec(), world);
    const BatchContextPtr context = make_batch_context(parts[0].batch, parts[0].instances, decoder.spec(),
                                                       decoder.precision(), RunPosition{}, divisors, decoder.device());
    LayerStats stats;
    const HiddenStates hidden = decoder.hidden_states(context, stats);
    const DecoderLoss loss = decoder.loss(hidden, *context, options.z_loss_multiplier);
    const Acceptance acceptance = decoder.acceptance(hidden, *context);
    std::vector<double> sums = {loss.ce_N.sum(at::kDouble).item<double>(),
                                loss.z_N.sum(at::kDouble).item<double>(),
                                static_cast<double>(parts[0].batch.loss_tokens()),
                                stats.sum(LayerStatKind::kLoadBalance),
                                loss.terms.value_of(kMtpLoss),
                                acceptance.accepted,
                                acceptance.predicted};
    world.sum_over_data(sums);
    EvalBatch numbers;
    numbers.ce_sum = sums[0];
    numbers.z_sum = sums[1];
    numbers.target_weight_sum = sums[2];
    numbers.moe_lb_loss = sums[3];
    numbers.mtp_loss = sums[4];
    numbers.mtp_acceptance_rate_percent = sums[6] > 0 ? 100 * sums[5] / sums[6] : 0;
    totals.add(numbers);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (observer && !observer(index, seconds.count(), totals)) break;
  }
  return totals;
}

}  // namespace ballast
