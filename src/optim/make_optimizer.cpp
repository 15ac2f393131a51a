// SPDX-License-Identifier: Apache-2.0
#include "optim/make_optimizer.h"

#include "config/config.h"
#include "errors/errors.h"

namespace ballast {

OptimizerOptions optimizer_options(const Config& config) {
  OptimizerOptions options;
  options.opt_type = config.opt_type;
  options.adam = {.b1 = config.adam_b1,
                  .b2 = config.adam_b2,
                  .eps = config.adam_eps,
                  .eps_root = config.adam_eps_root,
                  .weight_decay = config.adam_weight_decay,
                  .m_type = config.mu_dtype == "bfloat16" ? at::kBFloat16 : at::kFloat};
  options.muon = {
      .beta = config.muon_beta, .weight_decay = config.muon_weight_decay, .consistent_rms = config.muon_consistent_rms};
  return options;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options) {
  if (options.opt_type == "sgd") return std::make_unique<Sgd>();
  if (options.opt_type == "muon") return std::make_unique<Muon>(options.muon, options.adam);
  if (options.opt_type == "adam_pax") return std::make_unique<AdamW>(options.adam, AdamForm::kCorrectedDecay);
  BALLAST_CHECK(options.opt_type == "adamw", "opt_type " + options.opt_type);
  return std::make_unique<AdamW>(options.adam);
}

}  // namespace ballast
