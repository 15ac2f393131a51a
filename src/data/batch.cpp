// SPDX-License-Identifier: Apache-2.0
#include "data/batch.h"

#include <algorithm>

#include "errors/errors.h"

namespace ballast {
void fail_token_id(const std::string& where, int64_t id, int64_t vocab_size) {
  throw DataError({where, "token id " + std::to_string(id) + " is outside vocab_size=" + std::to_string(vocab_size), "",
                   "0.." + std::to_string(vocab_size - 1), "a larger vocab_size or another tokenizer"});
}

std::array<std::vector<int32_t>*, 6> HostBatch::arrays() {
  return {&inputs, &inputs_position, &inputs_segmentation, &targets, &targets_position, &targets_segmentation};
}

std::array<const std::vector<int32_t>*, 6> HostBatch::arrays() const {
  return {&inputs, &inputs_position, &inputs_segmentation, &targets, &targets_position, &targets_segmentation};
}

void HostBatch::resize(int64_t new_rows, int64_t new_length) {
  rows = new_rows;
  length = new_length;
  for (auto* array : arrays()) array->assign(static_cast<size_t>(rows * length), 0);
}

int64_t HostBatch::loss_tokens() const {
  return std::count_if(targets_segmentation.begin(), targets_segmentation.end(), [](int32_t s) { return s != 0; });
}

void HostBatch::check(int64_t vocab_size, const std::string& where) const {
  for (const auto* array : arrays()) {
    if (static_cast<int64_t>(array->size()) == rows * length) continue;
    throw DataError({where, "the arrays of the batch differ in length", std::to_string(array->size()),
                     std::to_string(rows * length), ""});
  }
  for (int64_t i = 0; i < rows * length; ++i) {
    for (const auto* ids : {&inputs, &targets}) {
      const int32_t id = (*ids)[static_cast<size_t>(i)];
      const bool matters = ids == &inputs || targets_segmentation[static_cast<size_t>(i)] != 0;
      if (!matters || (id >= 0 && id < vocab_size)) continue;
      fail_token_id(where + " row " + std::to_string(i / length) + " position " + std::to_string(i % length), id,
                    vocab_size);
    }
  }
}

}  // namespace ballast
