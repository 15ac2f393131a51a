// SPDX-License-Identifier: Apache-2.0
// A tokenizer made of parts, as tokenizer.json describes them: added tokens, normalizer, pre-tokenizer, model,
// template, decoder.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/tokenizer.h"
#include "data/tokenizer_added_tokens.h"
#include "data/tokenizer_decoder.h"
#include "data/tokenizer_model.h"
#include "data/tokenizer_normalizer.h"
#include "data/tokenizer_pretokenizer.h"
#include "data/tokenizer_template.h"

namespace ballast {

struct TokenizerParts {
  std::string_view type;  ///< of the key tokenizer_type; a constant
  std::unique_ptr<const TokenModel> model;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  AddedTokens added;
  TokenTemplate around;
  TokenDecoder decoder;

  /// Ids of the roles.
  std::optional<int32_t> bos, eos, pad, unk;

  /// Id of a token by its name, added tokens first.
  std::optional<int32_t> id_of(const std::string& name) const;
};

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerParts parts);

}  // namespace ballast
