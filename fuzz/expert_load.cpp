// SPDX-License-Identifier: Apache-2.0
#include "errors/errors.h"
#include "fuzz/input_file.h"
#include "fuzz/targets.h"
#include "metrics/balance.h"
#include "metrics/balance_page.h"
#include "metrics/expert_load_file.h"
#include "metrics/expert_load_history.h"

namespace ballast::fuzz {

/// The bytes as the expert load of a run: read, shown, and continued by a resumed run, whose file is then whole.
void expert_load(std::string_view input) {
  const InputFile file("expert_load.jsonl", input);
  try {
    std::vector<RunLoads> runs = {{"run", read_expert_load(file.path())}};
    const std::vector<StepLoads>& steps = runs.front().history.steps;
    BALLAST_CHECK(!steps.empty() && !steps.front().layers.empty(), "there is something in it");
    for (const StepLoads& step : steps) {
      BALLAST_CHECK(step.layers.size() == steps.front().layers.size(), "steps have the same layers");
    }
    const BalanceView view = balance_view(runs, std::nullopt);
    balance_text(balance_table(view));
    balance_page(runs, view);
  } catch (const DataError&) {
  }
  constexpr int64_t kResumedAt = 5;
  try {
    ExpertLoadFile resumed(file.path(), 2, kResumedAt);
    resumed.write(kResumedAt, {{0, false, {1, 2}, {}}});
    resumed.close();
    ExpertLoadFile(file.path(), 2, 0).close();
    read_expert_load(file.path());
    BALLAST_CHECK(false, "nothing is left of a run that starts over");
  } catch (const DataError&) {
  }
}

}  // namespace ballast::fuzz
