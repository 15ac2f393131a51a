// SPDX-License-Identifier: Apache-2.0
// Collects what the parts of one block declare, so that the block's parameters form one unit.
#pragma once

#include <string>
#include <vector>

#include "models/parameter.h"
#include "spec/decoder_spec.h"

namespace ballast {

/// The gathered weights of a unit, in the order in which they were declared.
using UnitWeights = std::vector<at::Tensor>;

/// Place of a parameter in its unit; -1: the part has no such parameter.
using Slot = int;

inline at::Tensor weight_at(const UnitWeights& weights, Slot slot) {
  return slot < 0 ? at::Tensor() : weights[static_cast<size_t>(slot)];
}

class UnitBuilder {
 public:
  /// @param prefix of every name, e.g. "model.layers.3."; @param init_scale variance scale of matrices
  UnitBuilder(std::string prefix, double init_scale) : prefix_(std::move(prefix)), init_scale_(init_scale) {}

  /// `<prefix><module>.weight`, [out, in].
  Slot matrix(const std::string& module, int64_t out, int64_t in, bool is_wide = false) {
    return add(module + ".weight", {out, in}, Initializer::kFanInTruncated, init_scale_, is_wide);
  }
  /// `<prefix><module>.bias`, [out]; no parameter when `exists` is false.
  Slot bias(const std::string& module, int64_t out, bool exists, bool is_wide = false) {
    return exists ? add(module + ".bias", {out}, Initializer::kZeros, init_scale_, is_wide) : -1;
  }
  /// `<prefix><inside><norm.name>.weight`, [width]; no parameter for an absent norm or one without a weight.
  Slot norm(const NormSpec& norm, int64_t width, const std::string& inside = {}) {
    if (!norm.exists() || !norm.has_weight) return -1;
    return add(inside + norm.name + ".weight", {width},
               norm.form == NormForm::kOnePlusScale ? Initializer::kZeros : Initializer::kOnes);
  }
  Slot add(const std::string& name, std::vector<int64_t> shape, Initializer initializer) {
    return add(name, std::move(shape), initializer, init_scale_);
  }
  /// The same with a variance scale of its own; `is_wide` as in ParameterSpec.
  Slot add(const std::string& name, std::vector<int64_t> shape, Initializer initializer, double init_scale,
           bool is_wide = false) {
    specs_.push_back({prefix_ + name, std::move(shape), initializer, init_scale, is_wide});
    return static_cast<Slot>(specs_.size()) - 1;
  }

  /// Untrained state `<prefix><name>` that starts as `value`; its place among the unit's buffers.
  Slot buffer(const std::string& name, at::Tensor value) {
    buffers_.push_back({prefix_ + name, std::move(value)});
    return static_cast<Slot>(buffers_.size()) - 1;
  }

  const std::vector<ParameterSpec>& specs() const { return specs_; }
  const std::vector<Buffer>& buffers() const { return buffers_; }

 private:
  std::string prefix_;
  double init_scale_;
  std::vector<ParameterSpec> specs_;
  std::vector<Buffer> buffers_;
};

}  // namespace ballast
