// SPDX-License-Identifier: Apache-2.0
// A small checkpoint to break.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_writer.h"

namespace ballast {

/// A tensor of consecutive floats.
struct FloatTensor {
  FloatTensor(std::string tensor_name, std::vector<int64_t> tensor_shape, float first)
      : stored{std::move(tensor_name), StoredType::kF32, std::move(tensor_shape)},
        values(static_cast<size_t>(stored.num_elements())) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
  }
  SnapshotTensor snapshot() const { return {stored, std::as_bytes(std::span(values)), nullptr}; }

  StoredTensor stored;
  std::vector<float> values;
};

/// Two tensor files, a document and a configuration. The tensors must outlive the content.
inline CheckpointContent small_content(const std::vector<FloatTensor>& tensors, int64_t step) {
  CheckpointContent content;
  content.step = step;
  content.config = "steps: 10\n";
  content.documents = {{"state.json", R"({"updates": 3})"}};
  content.tensor_files = {{"model-r00000.safetensors", {}}, {"optimizer-r00000.safetensors", {}}};
  for (size_t i = 0; i < tensors.size(); ++i) content.tensor_files[i % 2].tensors.push_back(tensors[i].snapshot());
  return content;
}

inline std::vector<FloatTensor> small_tensors() {
  std::vector<FloatTensor> tensors;
  tensors.emplace_back("a.weight", std::vector<int64_t>{3, 4}, 1.0F);
  tensors.emplace_back("mu/a.weight", std::vector<int64_t>{3, 4}, -7.0F);
  tensors.emplace_back("b", std::vector<int64_t>{}, 0.5F);
  return tensors;
}

}  // namespace ballast
