// SPDX-License-Identifier: Apache-2.0
#include "models/weight_fit.h"

#include <algorithm>

#include "errors/errors.h"

namespace ballast {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace

std::string listed(const std::string& title, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  constexpr size_t kShown = 5;
  std::string text = (title + " ") + std::to_string(names.size()) + ": ";
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i) text += (i > 0 ? ", " : "") + names[i];
  return text + (names.size() > kShown ? ", ..." : "") + ". ";
}

WeightFit::WeightFit(const std::vector<StoredTensor>& wanted,
                     const std::function<const StoredTensor*(const std::string&)>& find) {
  for (const StoredTensor& tensor : wanted) {
    wanted_.insert(tensor.name);
    const StoredTensor* stored = find(tensor.name);
    if (stored == nullptr) {
      missing_.push_back(tensor.name);
    } else if (tensor.shape != stored->shape) {
      misshaped_.push_back(tensor.name + " " + shape_text(stored->shape) + " instead of " + shape_text(tensor.shape));
    }
  }
}

void WeightFit::check(const std::string& where, const std::string& attempt) const {
  const std::string faults =
      listed("missing", missing_) + listed("unexpected", unexpected_) + listed("other shape", misshaped_);
  if (faults.empty()) return;
  throw CheckpointError(
      {.where = where, .what = "weights do not fit the model: " + faults, .got = {}, .need = {}, .attempt = attempt});
}

}  // namespace ballast
