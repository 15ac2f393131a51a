// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_sentencepiece.h"
#include "errors/errors.h"
#include "fuzz/input_file.h"
#include "fuzz/targets.h"
#include "fuzz/tokenizer_use.h"

namespace ballast::fuzz {

/// The bytes as a model of SentencePiece; one that is accepted encodes and decodes a text.
void sentencepiece_model(std::string_view input) {
  const InputFile file("tokenizer.model", input);
  try {
    use_tokenizer(*read_sentencepiece(file.path()));
  } catch (const DataError&) {
  }
}

}  // namespace ballast::fuzz
