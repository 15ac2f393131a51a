// SPDX-License-Identifier: Apache-2.0
#include "metrics/console.h"

#include "config/config.h"
#include "config/rampup.h"
#include "metrics/number.h"

namespace ballast {
namespace {

double value_of(const Record& record, const std::string& tag) {
  return record.get(tag).value_or(0.0);
}

/// Joins the parts of a line by ", ".
class Line {
 public:
  Line& add(const std::string& part) {
    text_ += (text_.empty() ? "" : ", ") + part;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Leaves the part out where the record has no such tag.
void add_if_present(Line& line, const std::string& label, const Record& record, const std::string& tag) {
  if (const auto value = record.get(tag)) line.add(label + fixed(*value, 3));
}

void add_mtp_means(Line& line, const std::string& prefix, const Record& record) {
  line.add(prefix + "mtp_loss=" + fixed(value_of(record, "eval/avg_mtp_loss"), 3));
  line.add(prefix + "mtp_acceptance_rate=" + fixed(value_of(record, "eval/avg_mtp_acceptance_rate_percent"), 2) + "%");
}

}  // namespace

ConsoleOptions console_options(const Config& config) {
  ConsoleOptions options;
  options.has_experts = config.num_experts > 1;
  options.has_mtp = config.mtp_num_layers > 0;
  options.has_indexer = config.use_indexer;
  if (const std::optional<BatchRampup> rampup = batch_rampup(config)) options.rampup_end_step = rampup->end_step();
  return options;
}

std::string parameter_line(int64_t num_parameters) {
  return "number parameters: " + fixed(static_cast<double>(num_parameters) / 1e9, 3) + " billion";
}

std::string flops_lines(const FlopCount& flops) {
  const double percent = flops.total > 0 ? 100 / flops.total : 0;
  return "Per train step:\n Total TFLOPs: " + fixed(flops.total, 2) + " \n split as " +
         fixed(percent * flops.weights, 2) + "% learnable weight flops and " + fixed(percent * flops.attention, 2) +
         "% attention flops";
}

std::string tensorboard_line(const std::string& tensorboard_dir) {
  return "To see full metrics 'tensorboard --logdir=" + tensorboard_dir + "'";
}

std::string train_line(const Record& record, const ConsoleOptions& options) {
  Line line;
  const bool is_rampup = record.step < options.rampup_end_step;
  if (is_rampup) line.add("[Rampup Batch Size Phase]");
  line.add("completed step: " + std::to_string(record.step));
  line.add("seconds: " + fixed(value_of(record, "perf/step_time_seconds"), 3));
  if (!is_rampup) {
    add_if_present(line, "TFLOP/s/device: ", record, "perf/per_device_tflops_per_sec");
    add_if_present(line, "Tokens/s/device: ", record, "perf/per_device_tokens_per_sec");
  }
  const double loss = value_of(record, "learning/loss");
  line.add("total_weights: " + fixed(value_of(record, "learning/total_weights"), 0));
  line.add("loss: " + fixed(loss, 3));
  add_if_present(line, "lm_loss: ", record, "learning/lm_loss");
  add_if_present(line, "perplexity: ", record, "learning/perplexity");
  add_if_present(line, "dpo_loss: ", record, "learning/dpo_loss");
  add_if_present(line, "reward_accuracy: ", record, "learning/reward_accuracy");
  if (options.has_experts) line.add("moe_lb_loss: " + fixed(value_of(record, "learning/moe_lb_loss"), 6));
  if (options.has_mtp) {
    const double mtp_loss = value_of(record, "learning/mtp_loss");
    line.add("main_model_loss: " + fixed(loss - mtp_loss, 3)).add("mtp_loss: " + fixed(mtp_loss, 3));
  }
  if (options.has_indexer) line.add("indexer_loss: " + shortest(value_of(record, "learning/indexer_loss")));
  return line.text();
}

std::string eval_start_line(int64_t train_step) {
  return "Starting eval after train step " + std::to_string(train_step);
}

std::string eval_step_line(int64_t eval_step, double seconds, const Record& running, const ConsoleOptions& options) {
  Line line;
  line.add("Completed eval step: " + std::to_string(eval_step));
  line.add("seconds: " + fixed(seconds, 3));
  line.add("running loss=" + fixed(value_of(running, "eval/avg_loss"), 3));
  line.add("running perplexity=" + fixed(value_of(running, "eval/avg_perplexity"), 3));
  line.add("running total_weights=" + shortest(value_of(running, "eval/total_weights")));
  if (options.has_mtp) add_mtp_means(line, "running ", running);
  return line.text();
}

std::string eval_summary_line(const Record& record, const ConsoleOptions& options) {
  Line line;
  line.add("Completed eval after train step " + std::to_string(record.step));
  line.add("loss=" + fixed(value_of(record, "eval/avg_loss"), 3));
  line.add("perplexity=" + fixed(value_of(record, "eval/avg_perplexity"), 3));
  line.add("total_weights=" + shortest(value_of(record, "eval/total_weights")));
  line.add("avg_z_loss=" + fixed(value_of(record, "eval/avg_z_loss"), 3));
  if (options.has_experts) line.add("avg_moe_lb_loss=" + fixed(value_of(record, "eval/avg_moe_lb_loss"), 3));
  if (options.has_mtp) add_mtp_means(line, "avg_", record);
  add_if_present(line, "dpo_reward_accuracy=", record, "eval/avg_dpo_reward_accuracy");
  if (options.has_indexer) line.add("avg_indexer_loss=" + fixed(value_of(record, "eval/avg_indexer_loss"), 3));
  return line.text();
}

}  // namespace ballast
