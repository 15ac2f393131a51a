// SPDX-License-Identifier: Apache-2.0
#include "models/hf_weights.h"

#include <algorithm>
#include <set>

#include "errors/errors.h"
#include "errors/log.h"
#include "files/safetensors.h"
#include "tensor/stored_tensor.h"

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

std::string shape_text(at::IntArrayRef shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string listed(const std::string& title, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  constexpr size_t kShown = 5;
  std::string text = (title + " ") + std::to_string(names.size()) + ": ";
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i) text += (i > 0 ? ", " : "") + names[i];
  return text + (names.size() > kShown ? ", ..." : "") + ". ";
}

}  // namespace

void load_hf_weights(Decoder& decoder, const std::string& folder, const std::string& weights_file) {
  const at::NoGradGuard no_grad;
  const SafetensorsFolder weights = open_hf_weights(folder, weights_file);
  std::vector<std::string> missing, misshaped, unexpected, ignored;
  std::set<std::string> wanted;
  const auto read_into = [&](const std::string& name, at::Tensor& target) {
    wanted.insert(name);
    const StoredTensor* stored = weights.find(name);
    if (stored == nullptr) {
      missing.push_back(name);
    } else if (stored->shape != target.sizes().vec()) {
      misshaped.push_back(name + " " + shape_text(stored->shape) + " instead of " + shape_text(target.sizes()));
    } else {
      target.copy_(borrow_stored(*stored, weights.bytes(name)));
    }
  };
  for (const UnitPtr& unit : decoder.units()) {
    for (Parameter& parameter : unit->parameters()) read_into(parameter.spec.name, parameter.master);
    for (Buffer& buffer : unit->buffers()) read_into(buffer.name, buffer.value);
    unit->drop_copies();
  }
  for (const std::string& name : weights.names()) {
    if (wanted.count(name) == 0) (is_ignorable(name, decoder.spec()) ? ignored : unexpected).push_back(name);
  }
  if (!ignored.empty()) log_info(folder + ": " + listed("tensors without a use here,", ignored));
  const std::string faults =
      listed("missing", missing) + listed("unexpected", unexpected) + listed("other shape", misshaped);
  if (!faults.empty()) {
    throw CheckpointError({.where = folder,
                           .what = "weights do not fit the model: " + faults,
                           .got = {},
                           .need = {},
                           .attempt = "a config.json that belongs to these weights"});
  }
}

}  // namespace ballast
