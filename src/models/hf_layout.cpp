// SPDX-License-Identifier: Apache-2.0
#include "models/hf_layout.h"

#include <algorithm>

namespace ballast {
namespace {

/// Collects the tensors of a folder; a name that comes again gets further parts.
class LayoutBuilder {
 public:
  void add(const std::string& name, std::vector<int64_t> shape, HfPart part) {
    const auto same = [&](const HfTensor& tensor) { return tensor.name == name; };
    const auto found = std::find_if(tensors_.rbegin(), tensors_.rend(), same);
    if (part.count > 1 && found != tensors_.rend()) {
      found->parts.push_back(std::move(part));
    } else {
      tensors_.push_back({name, std::move(shape), {std::move(part)}});
    }
  }
  std::vector<HfTensor> take() { return std::move(tensors_); }

 private:
  std::vector<HfTensor> tensors_;
};

/// Place of `own` among gate, up and down.
struct ExpertTensor {
  std::string own;  ///< "mlp.experts.gate_proj."
  std::string one;  ///< its name in a tensor an expert
  int64_t fused_place;
};

void add_experts(const ExpertNames& names, const ExpertTensor& which, const std::string& prefix,
                 const WeightTensor& tensor, LayoutBuilder& layout) {
  const bool is_bias = tensor.name.ends_with(".bias");
  std::vector<int64_t> shape = tensor.tensor.sizes().vec();
  if (names.storage == ExpertStorage::kOneTensorAnExpert) {
    const std::vector<int64_t> one(shape.begin() + 1, shape.end());
    for (int64_t expert = 0; expert < shape[0]; ++expert) {
      const std::string module = prefix + names.experts + "." + std::to_string(expert) + "." + which.one;
      layout.add(module + (is_bias ? ".bias" : ".weight"), one, {.own_name = tensor.name, .expert = expert});
    }
    return;
  }
  const bool is_fused = which.fused_place >= 0;
  HfPart part{.own_name = tensor.name, .is_transposed = !is_bias};
  if (!is_bias) std::swap(shape[1], shape[2]);
  if (is_fused) {
    part.place = which.fused_place;
    part.count = 2;
    shape.back() *= 2;
  }
  layout.add(prefix + names.experts + (is_fused ? ".gate_up_proj" : ".down_proj") + (is_bias ? "_bias" : ""), shape,
             part);
}

void add_moe_tensor(const ExpertNames& names, const std::string& prefix, const WeightTensor& tensor,
                    LayoutBuilder& layout) {
  const std::string name = tensor.name.substr(prefix.size());
  for (const ExpertTensor& which :
       {ExpertTensor{"mlp.experts.gate_proj.", names.gate, 0}, ExpertTensor{"mlp.experts.up_proj.", names.up, 1},
        ExpertTensor{"mlp.experts.down_proj.", names.down, -1}}) {
    if (name.starts_with(which.own)) return add_experts(names, which, prefix, tensor, layout);
  }
  const std::string router = "mlp.gate";
  const std::string hf_name = name.starts_with(router + ".") ? names.router + name.substr(router.size()) : name;
  layout.add(prefix + hf_name, tensor.tensor.sizes().vec(), {.own_name = tensor.name});
}

}  // namespace

at::Tensor HfPart::view_of_own(const at::Tensor& own) const {
  return expert < 0 ? own : own.select(0, expert);
}

at::Tensor HfPart::view_of_hf(const at::Tensor& hf) const {
  at::Tensor view = hf;
  if (count > 1) view = view.unflatten(-1, {-1, count}).select(-1, place);
  return is_transposed ? view.transpose(-1, -2) : view;
}

std::vector<HfTensor> hf_layout(const Decoder& decoder) {
  LayoutBuilder layout;
  const std::vector<LayerSpec>& layers = decoder.spec().layers;
  for (size_t i = 0; i < decoder.units().size(); ++i) {
    // The first unit is the embedding, the last the head. Prediction modules have no place in a folder.
    const bool is_layer = i > 0 && i <= layers.size();
    if (i > layers.size() && i + 1 < decoder.units().size()) continue;
    const auto* experts = is_layer ? std::get_if<MoeFfnSpec>(&layers[i - 1].ffn) : nullptr;
    for (const WeightTensor& tensor : stored_tensors(*decoder.units()[i])) {
      if (experts != nullptr) {
        add_moe_tensor(experts->names, decoder.units()[i]->name() + ".", tensor, layout);
      } else {
        layout.add(tensor.name, tensor.tensor.sizes().vec(), {.own_name = tensor.name});
      }
    }
  }
  return layout.take();
}

at::Tensor assemble(const HfTensor& tensor, const std::function<at::Tensor(const std::string& own_name)>& own) {
  if (tensor.parts[0].is_whole()) return own(tensor.parts[0].own_name);
  at::Tensor whole;
  for (const HfPart& part : tensor.parts) {
    const at::Tensor values = part.view_of_own(own(part.own_name));
    if (!whole.defined()) whole = at::empty(tensor.shape, values.options());
    part.view_of_hf(whole).copy_(values);
  }
  return whole;
}

}  // namespace ballast
