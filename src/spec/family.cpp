// SPDX-License-Identifier: Apache-2.0
#include "spec/family.h"

#include <algorithm>

#include "config/key_table.h"
#include "spec/spec_error.h"

namespace ballast {

namespace {

FamilyExperts mixtral_experts() {
  FamilyExperts form;
  form.names.router = "block_sparse_moe.gate";
  form.names.experts = "block_sparse_moe.experts";
  form.names.gate = "w1";
  form.names.up = "w3";
  form.names.down = "w2";
  return form;
}

FamilyExperts gpt_oss_experts() {
  FamilyExperts form;
  form.names.storage = ExpertStorage::kFusedInterleaved;
  form.names.router = "mlp.router";
  form.activation_alpha = 1.702;
  form.up_offset = 1;
  form.trains_routed_bias = true;
  return form;
}

}  // namespace

const std::vector<Family>& families() {
  using enum BlockForm;
  using enum NormForm;
  using enum QkNormKind;
  static const std::vector<Family> rows = {
      // decoder_block, block form, norm form, QK-norm kind, rotates in fp32, full attention period, experts, latent
      {"default", kParallel, kCastThenScale, kPerHead, false, 0, {}},
      {"llama2", kPreNorm, kCastThenScale, kPerHead, false, 0, {}},
      {"mistral", kPreNorm, kCastThenScale, kPerHead, false, 0, {}},
      {"mixtral", kPreNorm, kCastThenScale, kPerHead, false, 0, mixtral_experts()},
      {"qwen3", kPreNorm, kCastThenScale, kPerHead, false, 0, {}},
      {"qwen3_moe", kPreNorm, kCastThenScale, kPerHead, false, 0, {}},
      {"olmo3", kPostNorm, kScaleThenCast, kWholeProjection, true, 4, {}},
      {"olmoe", kPreNorm, kCastThenScale, kWholeProjection, false, 0, {}},
      {"flex_olmo", kPostNorm, kScaleThenCast, kWholeProjection, true, 0, {}},
      {"gpt_oss", kPreNorm, kScaleThenCast, kPerHead, false, 2, gpt_oss_experts()},
      {"deepseek", kPreNorm, kCastThenScale, kPerHead, false, 0, {}, true},
  };
  return rows;
}

const Family& family_of(const Config& config) {
  const auto& rows = families();
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [&](const Family& family) { return family.decoder_block == config.decoder_block; });
  if (row != rows.end()) return *row;
  std::vector<std::string> names;
  for (const Family& family : rows) names.push_back(family.decoder_block);
  fail_spec(config, "decoder_block", "no such decoder here", config.decoder_block, join_or(names));
}

}  // namespace ballast
