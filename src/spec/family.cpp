// SPDX-License-Identifier: Apache-2.0
#include "spec/family.h"

#include <algorithm>

#include "config/key_table.h"
#include "spec/spec_error.h"

namespace ballast {

const std::vector<Family>& families() {
  using enum BlockForm;
  using enum NormForm;
  using enum QkNormKind;
  static const std::vector<Family> rows = {
      // decoder_block, block form, norm form, QK-norm kind, rotates in fp32, full attention period
      {"default", kParallel, kCastThenScale, kPerHead, false, 0},
      {"llama2", kPreNorm, kCastThenScale, kPerHead, false, 0},
      {"mistral", kPreNorm, kCastThenScale, kPerHead, false, 0},
      {"qwen3", kPreNorm, kCastThenScale, kPerHead, false, 0},
      {"olmo3", kPostNorm, kScaleThenCast, kWholeProjection, true, 4},
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
