// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_json.h"

#include "errors/errors.h"
#include "fuzz/input_file.h"
#include "fuzz/targets.h"
#include "fuzz/tokenizer_use.h"

namespace ballast::fuzz {

/// The bytes as a tokenizer.json; one that is accepted encodes and decodes a text.
void tokenizer_json(std::string_view input) {
  const InputFile file("tokenizer.json", input);
  try {
    use_tokenizer(*read_tokenizer_json(file.path()));
  } catch (const DataError&) {
  }
}

}  // namespace ballast::fuzz
