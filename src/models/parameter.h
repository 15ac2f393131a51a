// SPDX-License-Identifier: Apache-2.0
// Parameters and the units they form: what is gathered, accumulated and updated together.
#pragma once

#include <ATen/ATen.h>
#include <torch/custom_class.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dist/world.h"
#include "tensor/precision.h"

namespace ballast {

enum class Initializer {
  kFanInTruncated,  ///< truncated normal (2 sigma), variance dense_init_scale / fan_in; fan_in = last dimension
  kFanInNormal,     ///< normal, variance 1 / last dimension (embedding tables)
  kOnes,
  kZeros,
};

/// What a layer says of one of its parameters.
struct ParameterSpec {
  std::string name;            ///< the name on disk, as Hugging Face writes it
  std::vector<int64_t> shape;  ///< matrices are [out, in]
  Initializer initializer = Initializer::kFanInTruncated;
  double init_scale = 1.0;  ///< multiplies the variance
  bool is_wide = false;     ///< read in the master's type, rounded to `weight_dtype` only: routers
};

/// One parameter of this rank.
struct Parameter {
  ParameterSpec spec;
  at::Tensor master;    ///< fp32 values, a leaf; shape of the spec (one rank) or this rank's shard
  at::Tensor gradient;  ///< the sink: fp32 sum over the step's micro-batches; undefined until something arrives
  bool is_trainable = true;
  bool decays = true;  ///< takes part in weight decay
};

/// State that is saved but never trained: routing bias, hash tables, statistics. In no gradient, optimizer, clip or
/// norm; the element type is its own (fp32 or integer) whatever `dtype` says.
struct Buffer {
  std::string name;  ///< the name on disk
  at::Tensor value;
};

/// The parameters of one layer. A block asks for all of them at once (`gather`), so that many ranks need one
/// collective a layer; their gradients leave autograd here, straight into the fp32 sinks. Rule for callers: backward
/// passes run with `backward()`, never with `grad()`, which leaves out nodes that lead to no wanted tensor.
class ParameterUnit : public torch::CustomClassHolder {
 public:
  ParameterUnit(std::string name, const std::vector<ParameterSpec>& specs, std::vector<Buffer> buffers,
                const Precision& precision, std::shared_ptr<const World> world, const at::Device& device);

  const std::string& name() const { return name_; }
  std::vector<Parameter>& parameters() { return parameters_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::vector<Buffer>& buffers() { return buffers_; }
  const std::vector<Buffer>& buffers() const { return buffers_; }

  /// The weights the forward pass reads, in the order of the specs. Under grad mode their gradients go to the sinks.
  std::vector<at::Tensor> gather();

  /// Rows `index_N` of parameter `which` in the activation type, [N, D]; the gradient is added into the rows of its
  /// sink, no table-sized temporary is made. `anchor` is a scalar that requires grad, so that the node exists.
  at::Tensor lookup(size_t which, const at::Tensor& index_N, const at::Tensor& anchor);

  /// Adds a full gradient to a sink. A sink that holds nothing yet takes the tensor over when nobody else holds it.
  void add_gradient(size_t which, at::Tensor gradient);

  /// Weight copies are made once a step and kept for its micro-batches unless `keeps_copies` is false.
  void set_keeps_copies(bool keeps_copies) { keeps_copies_ = keeps_copies; }
  /// Forgets the copies: to be called whenever the masters changed.
  void drop_copies();
  void clear_gradients();

  const World& world() const { return *world_; }

 private:
  friend struct GatherFunction;
  std::vector<at::Tensor> full_weights();

  std::string name_;
  std::vector<Parameter> parameters_;
  std::vector<Buffer> buffers_;
  Precision precision_;
  std::shared_ptr<const World> world_;
  bool keeps_copies_ = true;
  std::vector<at::Tensor> copies_;
};

using UnitPtr = c10::intrusive_ptr<ParameterUnit>;

/// Fills every master from (seed, its name): independent of creation order and of the number of ranks.
void initialize_parameters(const std::vector<UnitPtr>& units, uint64_t seed);

}  // namespace ballast
