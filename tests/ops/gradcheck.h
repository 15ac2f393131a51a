// SPDX-License-Identifier: Apache-2.0
// Gradients against central differences in fp64.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace ballast {

using TensorFunction = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

/// Normal numbers from a stream of their own.
inline at::Tensor normal(at::IntArrayRef sizes, uint64_t seed, at::ScalarType type = at::kDouble) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::TensorOptions().dtype(at::kDouble)).to(type);
}

/// The largest |analytic - numeric| / max(1, |numeric|) over all entries of the fp64 inputs, of a fixed random
/// combination of the outputs. All inputs are differentiated.
inline double gradient_error(const TensorFunction& function, const std::vector<at::Tensor>& inputs,
                             double step = 1e-5) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.detach().clone().set_requires_grad(true));
  const at::Tensor output = function(leaves);
  const at::Tensor cotangent = normal(output.sizes(), 77);
  const auto analytic = torch::autograd::grad({output}, leaves, {cotangent}, std::nullopt, false, true);
  const at::NoGradGuard no_grad;
  double worst = 0;
  for (size_t i = 0; i < leaves.size(); ++i) {
    double* values = leaves[i].data_ptr<double>();
    const at::Tensor gradient = analytic[i].defined() ? analytic[i].contiguous() : at::zeros_like(leaves[i]);
    for (int64_t j = 0; j < leaves[i].numel(); ++j) {
      const double kept = values[j];
      values[j] = kept + step;
      const double above = (function(leaves) * cotangent).sum().item<double>();
      values[j] = kept - step;
      const double below = (function(leaves) * cotangent).sum().item<double>();
      values[j] = kept;
      const double numeric = (above - below) / (2 * step);
      const double error = std::abs(gradient.const_data_ptr<double>()[j] - numeric) / std::max(1.0, std::abs(numeric));
      worst = std::isnan(error) ? error : std::max(worst, error);
      if (std::isnan(worst)) return worst;
    }
  }
  return worst;
}

/// max |a - b| / max |b|, in fp64; both must be finite.
inline double relative_error(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor wide = b.to(at::kDouble);
  const double scale = wide.numel() == 0 ? 0 : wide.abs().max().item<double>();
  const double gap = wide.numel() == 0 ? 0 : (a.to(at::kDouble) - wide).abs().max().item<double>();
  return scale == 0 ? gap : gap / scale;
}

}  // namespace ballast
