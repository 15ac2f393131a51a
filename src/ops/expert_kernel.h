// SPDX-License-Identifier: Apache-2.0
// Rows of expert_ffn.h back to their token, on the CPU; fp32, or bf16 as bits with fp32 inside.
#pragma once

#include <cstdint>

namespace ballast {

/// The rows of one token: `row[k]` numbers a row of `rows`, -1 none; `weight` null: 1.
struct TokenRows {
  const int64_t* row;
  const float* weight;
  int64_t num_choices, width;
};

/// out[j] = sum over k, in order, of weight[k] * rows[row[k]][j].
void sum_token_rows(const TokenRows& token, const float* rows, float* out);
void sum_token_rows(const TokenRows& token, const uint16_t* rows, uint16_t* out);

}  // namespace ballast
