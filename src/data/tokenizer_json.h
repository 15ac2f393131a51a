// SPDX-License-Identifier: Apache-2.0
// The tokenizer that a Hugging Face tokenizer.json describes.
#pragma once

#include <memory>
#include <string>

#include "data/tokenizer.h"

namespace ballast {

/// Reads a tokenizer.json with a BPE or Unigram model, and the roles from a tokenizer_config.json beside it.
///
/// The result equals the Hugging Face `tokenizers` library's, with these deliberate differences: an added token keeps
/// the id the file gives it even when that leaves a gap; ids given twice are an error; a special token is left out of
/// decoded text also when its normal form differs; and `truncation` and `padding` are not applied, because cutting
/// and filling rows is the trainer's work; and Metaspace's scheme "first" marks the start of the normalised document,
/// where the library asks which character of the original a word's first one came from. Characters are classed by the
/// Unicode version of the PCRE2 and utf8proc in use: letters that a later version added may be cut differently.
///
/// The roles BOS, EOS and pad come from `bos_token`, `eos_token`, `pad_token` of tokenizer_config.json (null: none;
/// a name without an id: none); without that member, BOS and EOS are the first id the post-processor puts before a
/// text and the last it puts after it; without these, the special added token with a well-known name.
///
/// @throws DataError naming file and JSON path
std::unique_ptr<Tokenizer> read_tokenizer_json(const std::string& file);

}  // namespace ballast
