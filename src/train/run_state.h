// SPDX-License-Identifier: Apache-2.0
// Everything that decides the next step, to and from a checkpoint.
#pragma once

#include <cstdint>

#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/checkpoint_writer.h"
#include "data/batch.h"
#include "models/decoder.h"
#include "train/step.h"

namespace ballast {

struct Config;

/// The parts of a run that change from step to step.
struct RunParts {
  Decoder& decoder;
  TrainStep& step;
  BatchSource& data;
};

/// A checkpoint after step number `step`. Tensors are not copied: see CheckpointSaver::detach().
CheckpointContent checkpoint_of(const RunParts& parts, const Config& config, int64_t step);

/// Brings the parts to where they were when the checkpoint was made. Keys whose values have changed are told in one
/// line; a changed length of the schedule in another one.
/// @throws DamagedCheckpointError; CheckpointError when tensors or optimizer do not fit the run; DataError when the
///         data are others. What was read by then stays half-read
void restore_run(const CheckpointReader& reader, const RunParts& parts, const Config& config);

}  // namespace ballast
