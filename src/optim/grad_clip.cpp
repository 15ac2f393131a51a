// SPDX-License-Identifier: Apache-2.0
#include "optim/grad_clip.h"

#include <ATen/Parallel.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "optim/update_kernel.h"

namespace ballast {
namespace {

/// A stretch of one tensor whose sum is formed at once. The cut does not follow the thread count.
struct Chunk {
  const float* data;
  int64_t count;
};

void append_chunks(const at::Tensor& tensor, std::vector<Chunk>& chunks) {
  const float* data = tensor.const_data_ptr<float>();
  for (int64_t start = 0; start < tensor.numel(); start += kNormChunk) {
    chunks.push_back({data + start, std::min(kNormChunk, tensor.numel() - start)});
  }
}

double sum_of_chunks(const std::vector<Chunk>& chunks) {
  std::vector<double> sums(chunks.size());
  at::parallel_for(0, static_cast<int64_t>(chunks.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      sums[i] = sum_of_squares(chunks[i].data, chunks[i].count);
    }
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace

double squared_norm(std::span<const at::Tensor> tensors) {
  std::vector<Chunk> chunks;
  std::vector<at::Tensor> elsewhere;  // norms that wait on their device, read in one transfer
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    if (tensor.is_cpu() && tensor.scalar_type() == at::kFloat && tensor.is_contiguous()) {
      append_chunks(tensor, chunks);
    } else {
      elsewhere.push_back(at::linalg_vector_norm(tensor, 2, std::nullopt, false, at::kDouble));
    }
  }
  double sum = sum_of_chunks(chunks);
  if (!elsewhere.empty()) sum += at::stack(elsewhere).square().sum().item<double>();
  return sum;
}

double global_norm(std::span<const at::Tensor> tensors) {
  return std::sqrt(squared_norm(tensors));
}

double clip_factor(double norm, double threshold) {
  return threshold > 0 && norm >= threshold ? threshold / norm : 1.0;
}

}  // namespace ballast
