// SPDX-License-Identifier: Apache-2.0
#include "data/further_tokens.h"

namespace ballast {

FurtherTokens further_tokens(const HostBatch& batch, int64_t distance) {
  FurtherTokens further;
  for (auto* array : {&further.inputs, &further.targets, &further.counts, &further.exists}) {
    array->assign(batch.inputs.size(), 0);
  }
  const auto& segments = batch.inputs_segmentation;
  for (int64_t row = 0; row < batch.rows; ++row) {
    for (int64_t t = 0; t + distance < batch.length; ++t) {
      const auto here = static_cast<size_t>(row * batch.length + t);
      const size_t there = here + static_cast<size_t>(distance);
      if (segments[here] == 0 || segments[here] != segments[there]) continue;
      further.inputs[here] = batch.inputs[there];
      further.exists[here] = 1;
      if (batch.targets_segmentation[there] == 0) continue;
      further.targets[here] = batch.targets[there];
      further.counts[here] = 1;
    }
  }
  return further;
}

}  // namespace ballast
