// SPDX-License-Identifier: Apache-2.0
// The expert load of one run, or of two against each other, layer by layer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "metrics/expert_load_history.h"

namespace ballast {

struct RunLoads {
  std::string name;  ///< as the user calls it
  LoadHistory history;
};

/// One step of each of one or two runs.
struct BalanceView {
  std::vector<const StepLoads*> steps;  ///< by run, from the histories
  std::string title;                    ///< "step 299", or "step 299 of A, step 199 of B"
  std::vector<std::string> notes;       ///< one sentence for each thing that limits a comparison
};

/// The given step, else the last one that the runs share, else the last one of each.
/// @param runs  one or two; the view points into them
/// @throws DataError when a run has no record of `step`, with the steps it has
BalanceView balance_view(std::span<const RunLoads> runs, std::optional<int64_t> step);

/// Cells as text. One run: layer, routing, variance, max over mean, dead experts. Two: layer, routing, variance of A
/// and of B, improvement (A - B) / A in percent. A layer that a run lacks shows "-", and so does an improvement on 0.
struct BalanceTable {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;  ///< one a layer of any run
  std::vector<std::string> total;  ///< sums over the layers with a router that all runs have; empty without such layers
  std::vector<std::string> notes;  ///< those of the view, and what the total is
};

BalanceTable balance_table(const BalanceView& view);

/// The table as lines of equal width, between bars, with a rule below the head and above the total; then the notes.
std::string balance_text(const BalanceTable& table);

}  // namespace ballast
