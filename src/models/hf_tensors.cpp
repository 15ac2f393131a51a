// SPDX-License-Identifier: Apache-2.0
#include "models/hf_tensors.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>

#include "errors/errors.h"
#include "tensor/stored_tensor.h"

namespace ballast {
namespace {

constexpr const char* kBlocks = "_blocks";
constexpr const char* kScales = "_scales";
constexpr int64_t kBlockBytes = 16, kBlockValues = 32;

/// What the pair encodes. Both orders of dimensions are the ones of the released files.
StoredTensor decoded(const std::string& name, const StoredTensor& blocks, const StoredTensor* scales) {
  const auto& shape = blocks.shape;
  const bool fits = scales != nullptr && blocks.type == StoredType::kU8 && scales->type == StoredType::kU8 &&
                    shape.size() == 4 && shape[3] == kBlockBytes &&
                    scales->shape == std::vector<int64_t>(shape.begin(), shape.end() - 1);
  if (!fits) {
    throw CheckpointError(
        {.where = blocks.name,
         .what = "is not one half of MXFP4 weights",
         .got = blocks.description() + " and " + (scales ? scales->description() : "no " + name + kScales),
         .need = "U8 [E, out, groups, 16] and U8 [E, out, groups]",
         .attempt = {}});
  }
  return {.name = name, .type = StoredType::kBF16, .shape = {shape[0], shape[2] * kBlockValues, shape[1]}};
}

}  // namespace

at::Tensor decode_mxfp4(const at::Tensor& blocks, const at::Tensor& scales) {
  static constexpr float kValues[16] = {0, .5, 1, 1.5, 2, 3, 4, 6, -0.0F, -.5, -1, -1.5, -2, -3, -4, -6};
  std::vector<int64_t> shape = scales.sizes().vec();
  shape.back() *= kBlockValues;
  const at::Tensor values = at::empty(shape, at::TensorOptions().dtype(at::kBFloat16));
  const at::Tensor packed = blocks.contiguous(), exponents = scales.contiguous();
  const auto* bytes = packed.const_data_ptr<uint8_t>();
  const auto* scale = exponents.const_data_ptr<uint8_t>();
  auto* out = values.mutable_data_ptr<at::BFloat16>();
  at::parallel_for(0, exponents.numel(), /*grain_size=*/4096, [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      for (int64_t i = 0; i < kBlockBytes; ++i) {
        const uint8_t pair = bytes[group * kBlockBytes + i];
        for (const int half : {0, 1}) {
          const float value = std::ldexp(kValues[(pair >> (4 * half)) & 15], static_cast<int>(scale[group]) - 127);
          out[group * kBlockValues + 2 * i + half] = at::BFloat16(value);
        }
      }
    }
  });
  return values;
}

HfTensors::HfTensors(SafetensorsFolder folder) : folder_(std::move(folder)) {
  for (const std::string& name : folder_.names()) {
    const auto stem = [&name = name](const std::string& end) {
      return name.ends_with(end) ? name.substr(0, name.size() - end.size()) : std::string();
    };
    if (const std::string pair = stem(kBlocks); !pair.empty()) {
      tensors_[pair] = decoded(pair, folder_.at(name), folder_.find(pair + kScales));
    } else if (stem(kScales).empty() || folder_.find(stem(kScales) + kBlocks) == nullptr) {
      tensors_[name] = folder_.at(name);
    }
  }
}

std::vector<std::string> HfTensors::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

const StoredTensor* HfTensors::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

at::Tensor HfTensors::read(const std::string& name) const {
  const auto borrowed = [&](const std::string& own) { return borrow_stored(folder_.at(own), folder_.bytes(own)); };
  if (folder_.find(name) != nullptr) return borrowed(name);
  return decode_mxfp4(borrowed(name + kBlocks), borrowed(name + kScales)).transpose(1, 2);
}

}  // namespace ballast
