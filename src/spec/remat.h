// SPDX-License-Identifier: Apache-2.0
// Which tensors a block keeps for its backward pass, from remat_policy and its per-tensor keys.
#pragma once

#include <set>

#include "config/config.h"

namespace ballast {

/// Tensors inside a block that a policy can name, as MaxText's keys call them.
enum class NamedTensor {
  kQueryProj,
  kKeyProj,
  kValueProj,
  kKeyValueProj,  ///< both of them in one product: kv_b of latent attention
  kQueryWaProj,   ///< latent of the queries, before its norm
  kKvWaProj,      ///< latent of keys and values, before its norm, and the rotating part of the key
  kContext,       ///< output of the attention kernel, with what its backward needs beside it
  kOutProj,
  kMlpwi,      ///< the only input projection of a feed-forward layer without a gate
  kMlpwi0,     ///< gate
  kMlpwi1,     ///< up
  kMlpwo,      ///< down
  kMoeMlpwi0,  ///< gate of the routed experts
  kMoeMlpwi1,  ///< up of the routed experts
  kMoeMlpwo,   ///< output of the routed experts, summed over a token's choices
};

using NamedTensors = std::set<NamedTensor>;

struct RematPlan {
  bool rematerializes = true;  ///< a block is run again in the backward pass
  NamedTensors kept;           ///< ... which then reads these from the first run
};

/// The plan of a configuration. A fused name (qkv_proj, kv_proj, mlpwi) stands for its parts, key_proj and value_proj
/// for their common product, and a name of the feed-forward layer for the same product of its experts: MaxText gives
/// those tensors both names. mla_q and mla_kv, which are latents behind their norms, stand for the latents before: the
/// norms' backward reads those, and the values behind follow from them without a product.
RematPlan make_remat_plan(const Config& config);

}  // namespace ballast
