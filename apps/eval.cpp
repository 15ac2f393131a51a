// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "apps/commands.h"
#include "config/config.h"
#include "config/resolve.h"
#include "data/loader.h"
#include "errors/log.h"
#include "metrics/console.h"
#include "metrics/writer.h"
#include "models/checkpoint_weights.h"
#include "train/setup.h"

namespace ballast {

namespace {

/// The weights that `load_parameters_path` names, else those of the run's newest checkpoint, else as a new run begins.
/// @return the step that the evaluation belongs to
int64_t load_eval_weights(Decoder& decoder, const Config& config) {
  if (config.load_parameters_path.empty() && config.enable_checkpointing) {
    const auto use = [&](const CheckpointReader& reader) { load_checkpoint_weights(decoder, reader); };
    if (const std::optional<int64_t> step = use_newest_checkpoint(checkpoints_root(config), use)) {
      log_info("weights: " + (checkpoints_root(config) / std::to_string(*step)).string());
      return *step;
    }
  }
  if (config.load_parameters_path.empty() && config.hf_model_path.empty()) {
    log_warning("eval: the run has no checkpoint and load_parameters_path is empty; the weights are random");
  }
  set_first_weights(decoder, config);
  return 0;
}

}  // namespace

int run_eval(const Arguments& arguments) {
  Arguments keys = arguments;
  const bool prints_config = std::erase(keys, "--print_config") > 0;
  Config config = resolve_config(keys, {});
  if (prints_config) {
    std::fputs(print_config(config).c_str(), stdout);
    return 0;
  }
  if (config.eval_interval <= 0) config.eval_interval = 1;  // the split is asked for by the command itself
  const std::shared_ptr<const World> world = single_rank_world();
  const std::unique_ptr<Decoder> decoder = make_decoder(config, world, resolve_device(config));
  const int64_t step = load_eval_weights(*decoder, config);
  const std::unique_ptr<BatchSource> source = make_eval_source(config, {});
  const ConsoleOptions console = console_options(config);
  const auto observer = [&](int64_t batch, double seconds, const EvalTotals& totals) {
    std::printf("%s\n", eval_step_line(batch, seconds, totals.record(step), console).c_str());
    std::fflush(stdout);
    return true;
  };
  const EvalTotals totals = evaluate(*decoder, *source, *world, eval_options(config), observer);
  totals.check_not_empty(eval_split_name(config));
  const Record record = totals.record(step);
  std::printf("%s\n", eval_summary_line(record, console).c_str());
  WriterOptions options = writer_options(config);
  options.resume_from_step = kKeepAllSteps;
  MetricsWriter writer(options);
  writer.write(record);
  writer.close();
  return 0;
}

}  // namespace ballast
