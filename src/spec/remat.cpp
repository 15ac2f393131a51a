// SPDX-License-Identifier: Apache-2.0
#include "spec/remat.h"

#include <string_view>

#include "config/key_table.h"

namespace ballast {
namespace {

using enum NamedTensor;

const NamedTensors kQkv = {kQueryProj, kKeyProj, kValueProj, kKeyValueProj};
const NamedTensors kLatents = {kQueryWaProj, kKvWaProj};
const NamedTensors kGate = {kMlpwi0, kMoeMlpwi0};
const NamedTensors kUp = {kMlpwi1, kMoeMlpwi1};
const NamedTensors kDown = {kMlpwo, kMoeMlpwo};

NamedTensors joined(NamedTensors a, const NamedTensors& b) {
  a.insert(b.begin(), b.end());
  return a;
}

NamedTensors mlp_inputs() {
  return joined(joined(kGate, kUp), {kMlpwi});
}

NamedTensors all_products() {
  return joined(joined(joined(kQkv, kLatents), mlp_inputs()), joined(kDown, {kOutProj}));
}

struct Policy {
  std::string_view names;  ///< `a|b`: what they keep is the same
  NamedTensors kept;
};

const std::vector<Policy>& policies() {
  static const std::vector<Policy> rows = {
      {"full", {}},
      {"save_out_proj", {kOutProj}},
      {"save_qkv_proj|qkv_proj_offloaded", kQkv},
      {"save_dot_except_mlp", joined(kQkv, {kOutProj})},
      {"save_dot_except_mlpwi", joined(joined(kQkv, kDown), {kOutProj})},
      {"save_dot_with_context_except_mlp", joined(kQkv, {kContext, kOutProj})},
      // Without quantization there is nothing more to keep for it.
      {"minimal|minimal_with_quantization|minimal_offloaded", all_products()},
      {"minimal_with_context|minimal_flash|minimal_with_context_and_quantization", joined(all_products(), {kContext})},
  };
  return rows;
}

NamedTensors custom_set(const Config& config) {
  const std::pair<const std::string&, NamedTensors> keys[] = {
      {config.context, {kContext}},
      {config.attention_out, {kContext}},
      {config.query_proj, {kQueryProj}},
      {config.key_proj, {kKeyProj, kKeyValueProj}},
      {config.value_proj, {kValueProj, kKeyValueProj}},
      {config.kv_proj, {kKeyProj, kValueProj, kKeyValueProj}},
      {config.qkv_proj, kQkv},
      {config.query_wa_proj, {kQueryWaProj}},
      {config.kv_wa_proj, {kKvWaProj}},
      {config.mla_q, {kQueryWaProj}},
      {config.mla_kv, {kKvWaProj}},
      {config.out_proj, {kOutProj}},
      {config.mlpwi, mlp_inputs()},
      {config.mlpwi_0, kGate},
      {config.mlpwi_1, kUp},
      {config.mlpwo, kDown},
      {config.moe_mlpwi_0, {kMoeMlpwi0}},
      {config.moe_mlpwi_1, {kMoeMlpwi1}},
      {config.moe_mlpwo, {kMoeMlpwo}},
  };
  NamedTensors kept;
  for (const auto& [value, tensors] : keys) {
    if (value != "remat") kept = joined(kept, tensors);
  }
  return kept;
}

}  // namespace

RematPlan make_remat_plan(const Config& config) {
  if (config.remat_policy == "none") return {.rematerializes = false, .kept = {}};
  if (config.remat_policy == "custom") return {.rematerializes = true, .kept = custom_set(config)};
  for (const Policy& policy : policies()) {
    for (const std::string& name : split_words(policy.names)) {
      if (name == config.remat_policy) return {.rematerializes = true, .kept = policy.kept};
    }
  }
  return {};
}

}  // namespace ballast
