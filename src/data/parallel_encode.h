// SPDX-License-Identifier: Apache-2.0
// Encodes many texts on several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"

namespace ballast {

/// The ids of each text, in order, whatever `num_threads` (>= 1) is. With one thread nothing is started.
/// @throws what Tokenizer::encode threw for the first text that failed
std::vector<std::vector<int32_t>> encode_all(const Tokenizer& tokenizer, std::span<const std::string_view> texts,
                                             bool add_special_tokens, size_t num_threads);

}  // namespace ballast
