// SPDX-License-Identifier: Apache-2.0
#include "models/dropout.h"

#include "tensor/random_stream.h"

namespace ballast {

at::Tensor dropout(const at::Tensor& x_BTD, double rate, const BatchContext& batch, int64_t layer, int64_t place) {
  if (rate <= 0 || !batch.position.is_training) return x_BTD;
  at::Tensor keeps = at::empty(x_BTD.sizes(), at::kBool);
  const at::Tensor instance_B = batch.instance_B.cpu();
  for (int64_t row = 0; row < x_BTD.size(0); ++row) {
    const auto instance = static_cast<uint64_t>(instance_B[row].item<int64_t>());
    at::Generator stream = cpu_stream(stream_key(batch.position.seed, "dropout",
                                                 {static_cast<uint64_t>(batch.position.step), instance,
                                                  static_cast<uint64_t>(layer), static_cast<uint64_t>(place)}));
    keeps[row].bernoulli_(1.0 - rate, stream);
  }
  return x_BTD * keeps.to(x_BTD.device()) * (1.0 / (1.0 - rate));
}

}  // namespace ballast
