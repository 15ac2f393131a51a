// SPDX-License-Identifier: Apache-2.0
// What sets one decoder family apart from another, as a table over decoder_block.
#pragma once

#include <string>
#include <vector>

#include "spec/decoder_spec.h"

namespace ballast {

/// Where a block of the family has its norms.
enum class BlockForm {
  kPreNorm,   ///< x += f(norm(x)), twice
  kPostNorm,  ///< x += norm(f(x)), twice
  kParallel,  ///< x += mixer(norm(x)) + ffn(norm(x)), one norm
};

/// Experts of a family: their names in a Hugging Face folder and what no key says of their computation.
struct FamilyExperts {
  ExpertNames names = {};
  double activation_alpha = 1;      ///< MoeFfnSpec's, where mlp_activations_alpha is 0
  double up_offset = 0;             ///< MoeFfnSpec's
  bool trains_routed_bias = false;  ///< routed_bias is a trained bias of the logits, not one of the choice
};

/// One row: the facts that no configuration key carries.
struct Family {
  std::string decoder_block;
  BlockForm block_form = BlockForm::kPreNorm;
  NormForm norm_form = NormForm::kCastThenScale;
  QkNormKind qk_norm = QkNormKind::kPerHead;  ///< the kind that use_qk_norm=true asks for
  bool rotates_in_fp32 = false;               ///< RopeSpec::multiplies_in_fp32
  int64_t full_attention_period = 0;  ///< n: layer i sees everything iff (i+1) % n = 0, the others slide; 0: no pattern
  FamilyExperts experts = {};
  bool attends_by_latent = false;  ///< attention_type=mla, which no other family has
};

/// Every family, in the order of the documentation.
const std::vector<Family>& families();

/// The row of decoder_block. Throws ConfigError that lists the rows when there is none.
const Family& family_of(const Config& config);

}  // namespace ballast
