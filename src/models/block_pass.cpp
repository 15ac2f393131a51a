// SPDX-License-Identifier: Apache-2.0
#include "models/block_pass.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include "errors/errors.h"

namespace ballast {
namespace {

// > 0 while some enclosing block is in its second run, in this thread.
thread_local int rerun_depth = 0;

struct RerunScope {
  RerunScope() { ++rerun_depth; }
  ~RerunScope() { --rerun_depth; }
  RerunScope(const RerunScope&) = delete;
  RerunScope& operator=(const RerunScope&) = delete;
};

struct BlockCell : torch::CustomClassHolder {
  BlockBody body;
  BlockStash stash;
};

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The last input is the anchor: a scalar that requires grad. Without it a block whose other inputs are all integer or
// frozen would get no node, and its parameters silently no gradient.
struct RematerializedBlock : torch::autograd::Function<RematerializedBlock> {
  static variable_list forward(AutogradContext* context, const c10::intrusive_ptr<BlockCell>& cell,
                               at::TensorList inputs) {
    const variable_list all(inputs.begin(), inputs.end());
    context->saved_data["cell"] = c10::IValue::make_capsule(cell);
    context->save_for_backward(all);
    context->set_materialize_grads(false);
    cell->stash.tensors.clear();
    BlockPass pass(/*counts=*/rerun_depth == 0, /*replays=*/false, &cell->stash);
    return cell->body({all.begin(), all.end() - 1}, pass);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto capsule = context->saved_data["cell"].toCapsule();
    auto* cell = static_cast<BlockCell*>(capsule.get());
    const variable_list saved = context->get_saved_variables();
    variable_list inputs;
    for (size_t i = 0; i + 1 < saved.size(); ++i) {
      inputs.push_back(saved[i].detach());
      if (saved[i].requires_grad()) inputs.back().set_requires_grad(true);
    }
    variable_list roots, root_gradients;
    {
      const at::AutoGradMode grad_mode(true);
      const RerunScope rerun;
      BlockPass pass(/*counts=*/false, /*replays=*/true, &cell->stash);
      const variable_list outputs = cell->body(inputs, pass);
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (!gradients[i].defined() || !outputs[i].defined() || !outputs[i].requires_grad()) continue;
        roots.push_back(outputs[i]);
        root_gradients.push_back(gradients[i]);
      }
    }
    gradients.clear();
    cell->stash.tensors.clear();
    variable_list result(1 + saved.size());  // slot 0 is the cell
    if (roots.empty()) return result;
    // backward(), not grad(): the units' gather nodes lead to no tensor that grad() could be asked for.
    torch::autograd::backward(roots, root_gradients, /*retain_graph=*/false);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].requires_grad()) result[1 + i] = inputs[i].grad();
    }
    return result;
  }
};

}  // namespace

at::Tensor BlockPass::decide(const std::function<at::Tensor()>& decision) {
  if (stash_ == nullptr) return decision();
  if (!replays_) {
    stash_->tensors.push_back(decision());
    return stash_->tensors.back();
  }
  return next_stashed();
}

BlockPass::Tensors BlockPass::named(const std::vector<NamedTensor>& names, const Maker& make) {
  if (stash_ == nullptr) return make({});
  Tensors given(names.size());
  if (replays_) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (stash_->kept.contains(names[i])) given[i] = next_stashed();
    }
    return make(given);
  }
  Tensors made = make(given);
  BALLAST_CHECK(made.size() == names.size(), "one tensor a name");
  for (size_t i = 0; i < names.size(); ++i) {
    if (!stash_->kept.contains(names[i])) continue;
    // Without history: a tensor that leaves the block would lead back to the stash.
    stash_->tensors.push_back(made[i].defined() ? made[i].detach() : made[i]);
  }
  return made;
}

at::Tensor BlockPass::next_stashed() {
  BALLAST_CHECK(next_ < stash_->tensors.size(), "a block asks for more tensors in its second run than in its first");
  return std::move(stash_->tensors[next_++]);
}

std::vector<at::Tensor> run_block(BlockBody body, const std::vector<at::Tensor>& inputs, bool rematerializes,
                                  const NamedTensors& kept) {
  if (!rematerializes || !at::GradMode::is_enabled()) {
    BlockPass pass(/*counts=*/rerun_depth == 0, /*replays=*/false, nullptr);
    return body(inputs, pass);
  }
  auto cell = c10::make_intrusive<BlockCell>();
  cell->body = std::move(body);
  cell->stash.kept = kept;
  std::vector<at::Tensor> all = inputs;
  all.push_back(at::zeros({}).set_requires_grad(true));
  const at::TensorList list(all);
  return RematerializedBlock::apply(cell, list);
}

}  // namespace ballast
