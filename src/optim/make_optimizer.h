// SPDX-License-Identifier: Apache-2.0
// From `opt_type` and its keys to an optimizer.
#pragma once

#include <memory>
#include <string>

#include "optim/muon.h"

namespace ballast {

struct Config;

struct OptimizerOptions {
  std::string opt_type = "adamw";  ///< adamw, adam_pax, sgd or muon
  AdamWOptions adam{};
  MuonOptions muon{};
};

OptimizerOptions optimizer_options(const Config& config);

/// @throws InternalError for an unknown opt_type
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options);

}  // namespace ballast
