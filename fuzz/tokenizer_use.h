// SPDX-License-Identifier: Apache-2.0
// What is done with a tokenizer that a parser accepted.
#pragma once

#include "data/tokenizer.h"

namespace ballast::fuzz {

/// Encodes and decodes a text; ids and roles must be of the vocabulary and texts UTF-8.
void use_tokenizer(const Tokenizer& tokenizer);

}  // namespace ballast::fuzz
