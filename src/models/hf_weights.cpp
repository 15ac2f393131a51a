// SPDX-License-Identifier: Apache-2.0
#include "models/hf_weights.h"

#include <map>

#include "errors/log.h"
#include "files/safetensors.h"
#include "models/hf_layout.h"
#include "models/weight_fit.h"

namespace ballast {
namespace {

bool ends_with(const std::string& name, std::string_view end) {
  return name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
}

// Tensors of a file that hold nothing a run of this model needs.
bool is_ignorable(const std::string& name, const DecoderSpec& spec) {
  if (ends_with(name, ".rotary_emb.inv_freq")) return true;  // written by old libraries; the frequencies are computed
  if (name == "lm_head.weight" && spec.is_head_tied) return true;
  if (name.starts_with("mtp.")) return true;  // prediction modules exist only with mtp_num_layers > 0
  const std::string layers = "model.layers.";
  if (!name.starts_with(layers)) return false;
  const size_t end = name.find('.', layers.size());
  const std::string number = name.substr(layers.size(), end - layers.size());
  if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos || number.size() > 9) return false;
  return std::stoul(number) >= spec.layers.size();
}

}  // namespace

void check_hf_weights(const Decoder& decoder, const HfTensors& weights, const std::string& folder) {
  std::vector<StoredTensor> wanted;
  for (const HfTensor& tensor : hf_layout(decoder)) wanted.push_back({.name = tensor.name, .shape = tensor.shape});
  WeightFit fit(wanted, [&](const std::string& name) { return weights.find(name); });
  std::vector<std::string> ignored;
  for (const std::string& name : weights.names()) {
    if (fit.wants(name)) continue;
    if (is_ignorable(name, decoder.spec())) {
      ignored.push_back(name);
    } else {
      fit.add_unexpected(name);
    }
  }
  if (!ignored.empty()) log_info(folder + ": " + listed("tensors without a use here,", ignored));
  fit.check(folder, "a config.json that belongs to these weights");
}

void load_hf_weights(Decoder& decoder, const std::string& folder, const std::string& weights_file) {
  const at::NoGradGuard no_grad;
  const HfTensors weights(open_hf_weights(folder, weights_file));
  check_hf_weights(decoder, weights, folder);
  std::map<std::string, at::Tensor> own;
  for (const auto& [name, tensor] : decoder.stored_tensors()) own.emplace(name, tensor);
  for (const HfTensor& tensor : hf_layout(decoder)) {
    const at::Tensor stored = weights.read(tensor.name);
    for (const HfPart& part : tensor.parts) part.view_of_own(own.at(part.own_name)).copy_(part.view_of_hf(stored));
  }
  for (const UnitPtr& unit : decoder.units()) unit->drop_copies();
}

}  // namespace ballast
