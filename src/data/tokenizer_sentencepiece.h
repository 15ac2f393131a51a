// SPDX-License-Identifier: Apache-2.0
// `.model` files, through the SentencePiece library.
#pragma once

#include <memory>
#include <string>

#include "data/tokenizer.h"

namespace ballast {

/// Reads a model file of SentencePiece. Texts such as `<s>` are no special tokens; the roles are the model's; the
/// template puts BOS in front, if the model has it.
/// @throws DataError naming the file when it is cut off, damaged, or refused by the library
std::unique_ptr<Tokenizer> read_sentencepiece(const std::string& file);

}  // namespace ballast
