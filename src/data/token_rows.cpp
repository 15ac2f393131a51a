// SPDX-License-Identifier: Apache-2.0
#include "data/token_rows.h"

#include <algorithm>

#include "errors/errors.h"

namespace ballast {

void fill_row_from_tokens(HostBatch& batch, int64_t index, std::span<const int32_t> tokens,
                          std::span<const int32_t> segments) {
  const int64_t length = batch.length;
  BALLAST_CHECK(static_cast<int64_t>(tokens.size()) == length + 1 && segments.size() == tokens.size(), "T + 1 entries");
  const int64_t begin = index * length;
  std::copy_n(tokens.begin(), length, batch.inputs.begin() + begin);
  std::copy_n(tokens.begin() + 1, length, batch.targets.begin() + begin);
  int32_t position = 0;
  for (int64_t t = 0; t < length; ++t) {
    const auto i = static_cast<size_t>(t);
    position = t > 0 && segments[i] == segments[i - 1] && segments[i] != 0 ? position + 1 : 0;
    batch.inputs_segmentation[begin + t] = segments[i];
    batch.inputs_position[begin + t] = position;
    batch.targets_position[begin + t] = position;
    batch.targets_segmentation[begin + t] = segments[i] == segments[i + 1] ? segments[i] : 0;
  }
}

}  // namespace ballast
