// SPDX-License-Identifier: Apache-2.0
#include "metrics/eval_totals.h"

#include <algorithm>
#include <cmath>

#include "errors/errors.h"

namespace ballast {

void EvalTotals::add(const EvalBatch& batch) {
  ++num_batches_;
  sums_.ce_sum += batch.ce_sum;
  sums_.z_sum += batch.z_sum;
  sums_.target_weight_sum += batch.target_weight_sum;
  sums_.moe_lb_loss += batch.moe_lb_loss;
  sums_.indexer_loss += batch.indexer_loss;
  sums_.mtp_loss += batch.mtp_loss;
  sums_.mtp_acceptance_rate_percent += batch.mtp_acceptance_rate_percent;
  if (batch.dpo_reward_accuracy) {
    sums_.dpo_reward_accuracy =
        sums_.dpo_reward_accuracy.value_or(0) + *batch.dpo_reward_accuracy * batch.target_weight_sum;
  }
}

double EvalTotals::avg_loss() const {
  return sums_.ce_sum / std::max(sums_.target_weight_sum, 1.0);
}

Record EvalTotals::record(int64_t train_step) const {
  const double weights = std::max(sums_.target_weight_sum, 1.0);
  const double batches = std::max<double>(static_cast<double>(num_batches_), 1);
  Record record{"eval", train_step, {}};
  record.set("eval/total_loss", sums_.ce_sum);
  record.set("eval/total_weights", sums_.target_weight_sum);
  record.set("eval/moe_lb_loss", sums_.moe_lb_loss);
  record.set("eval/indexer_loss", sums_.indexer_loss);
  record.set("eval/mtp_loss", sums_.mtp_loss);
  record.set("eval/mtp_acceptance_rate_percent", sums_.mtp_acceptance_rate_percent);
  record.set("eval/z_loss", sums_.z_sum);
  record.set("eval/avg_loss", avg_loss());
  record.set("eval/avg_perplexity", std::exp(avg_loss()));
  record.set("eval/avg_moe_lb_loss", sums_.moe_lb_loss / batches);
  record.set("eval/avg_indexer_loss", sums_.indexer_loss / batches);
  record.set("eval/avg_mtp_loss", sums_.mtp_loss / batches);
  record.set("eval/avg_mtp_acceptance_rate_percent", sums_.mtp_acceptance_rate_percent / batches);
  record.set("eval/avg_z_loss", sums_.z_sum / weights);
  if (sums_.dpo_reward_accuracy) record.set("eval/avg_dpo_reward_accuracy", *sums_.dpo_reward_accuracy / weights);
  return record;
}

void EvalTotals::check_not_empty(const std::string& split) const {
  if (sums_.target_weight_sum > 0) return;
  Fault fault;
  fault.where = split;
  fault.what = "the evaluation split has no target that counts";
  fault.got = std::to_string(num_batches_) + (num_batches_ == 1 ? " batch" : " batches");
  fault.need = "at least one batch with a counted target";
  throw DataError(fault);
}

}  // namespace ballast
