// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_tiktoken.h"
#include "errors/errors.h"
#include "fuzz/input_file.h"
#include "fuzz/targets.h"
#include "fuzz/tokenizer_use.h"

namespace ballast::fuzz {

/// The bytes up to a zero as a rank file, what follows as the special_tokens.json beside it; one that is accepted
/// encodes and decodes a text.
void tiktoken_ranks(std::string_view input) {
  const size_t end = input.find('\0');
  InputFile file("tokenizer.tiktoken", input.substr(0, end));
  if (end != std::string_view::npos) file.add("special_tokens.json", input.substr(end + 1));
  try {
    use_tokenizer(*read_tiktoken(file.path()));
  } catch (const DataError&) {
  }
}

}  // namespace ballast::fuzz
