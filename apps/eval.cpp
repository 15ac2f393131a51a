// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "apps/commands.h"
#include "config/config.h"
#include "config/resolve.h"
#include "data/loader.h"
#include "errors/log.h"
#include "metrics/console.h"
#include "metrics/writer.h"
#include "train/setup.h"

namespace ballast {

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
  if (config.hf_model_path.empty() && config.load_parameters_path.empty()) {
    log_warning("eval: neither hf_model_path nor load_parameters_path is given; the weights are random");
  }
  const std::unique_ptr<BatchSource> source = make_eval_source(config, {});
  const ConsoleOptions console = console_options(config);
  const auto observer = [&](int64_t batch, double seconds, const EvalTotals& totals) {
    std::printf("%s\n", eval_step_line(batch, seconds, totals.record(0), console).c_str());
    std::fflush(stdout);
    return true;
  };
  const EvalTotals totals = evaluate(*decoder, *source, *world, eval_options(config), observer);
  totals.check_not_empty(eval_split_name(config));
  const Record record = totals.record(0);
  std::printf("%s\n", eval_summary_line(record, console).c_str());
  WriterOptions options = writer_options(config);
  options.resume_from_step = kKeepAllSteps;
  MetricsWriter writer(options);
  writer.write(record);
  writer.close();
  return 0;
}

}  // namespace ballast
