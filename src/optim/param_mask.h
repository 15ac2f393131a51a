// SPDX-License-Identifier: Apache-2.0
// Which parameters train and which decay, from the patterns of `trainable_parameters_mask` and `adamw_mask`.
#pragma once

#include <string>
#include <vector>

namespace ballast {

struct ParamMembership {
  bool trains = true;  ///< gradient, clipping, update and optimizer state; false: the parameter stays as it is
  bool decays = true;  ///< takes part in weight decay
};

/// The spellings of one parameter name that patterns are tried on: the dotted name, the same with slashes, and
/// MaxText's paths where it has the parameter, with its layers apart (`layers_3`) and scanned (`layers`).
std::vector<std::string> parameter_paths(const std::string& name);

/// Membership of every parameter of `names`, in order. A pattern is a regular expression that may match anywhere in any
/// spelling of a name. A match with `adamw_mask` switches decay off. If `trainable_parameters_mask` is not empty,
/// only its matches train. A pattern without any match warns.
/// @throws ConfigError naming key and pattern for an invalid expression, or when nothing is left to train
std::vector<ParamMembership> mask_parameters(const std::vector<std::string>& names,
                                             const std::vector<std::string>& adamw_mask,
                                             const std::vector<std::string>& trainable_parameters_mask);

}  // namespace ballast
