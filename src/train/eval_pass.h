// SPDX-License-Identifier: Apache-2.0
// One pass over an evaluation split: no gradient, no dropout, nothing changed.
#pragma once

#include <functional>

#include "data/batch.h"
#include "dist/world.h"
#include "metrics/eval_totals.h"
#include "models/decoder.h"

namespace ballast {

struct EvalOptions {
  int64_t max_batches = -1;  ///< eval_steps; <= 0: the whole split
  int64_t batch_rows = 0;    ///< rows of each batch that are looked at; 0: all
  double z_loss_multiplier = 0;
};

/// Called after each batch with its number, its wall time and the totals so far. Returns false to stop early.
using EvalObserver = std::function<bool(int64_t batch, double seconds, const EvalTotals& totals)>;

/// Restarts `source` and goes through it. The model's state is untouched.
EvalTotals evaluate(Decoder& decoder, BatchSource& source, const World& world, const EvalOptions& options,
                    const EvalObserver& observer = {});

}  // namespace ballast
