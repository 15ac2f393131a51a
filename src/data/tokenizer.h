// SPDX-License-Identifier: Apache-2.0
// The one interface between text and token ids, whatever file the vocabulary comes from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ballast {

/// Text to token ids and back. All members are const and safe to call from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Ids of `text` (UTF-8; each invalid sequence is read as U+FFFD). Special tokens written out in the text become
  /// their ids. With `add_special_tokens` the post-processor's tokens (BOS, EOS ...) are put around the result;
  /// without it nothing is added.
  virtual std::vector<int32_t> encode(std::string_view text, bool add_special_tokens) const = 0;

  /// Text of `ids`, valid UTF-8: bytes that form no character become U+FFFD. Ids without a token are left out.
  /// @param skip_special_tokens  leave out the tokens marked special
  virtual std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const = 0;

  /// Largest id + 1: the smallest vocab_size of a model that can take every id.
  virtual int64_t vocab_size() const = 0;

  /// Id of a token by its exact name as the vocabulary writes it, added tokens included.
  virtual std::optional<int32_t> token_to_id(std::string_view token) const = 0;

  /// Ids of the tokens with a role; empty when the tokenizer has none.
  virtual std::optional<int32_t> bos_id() const = 0;
  virtual std::optional<int32_t> eos_id() const = 0;
  virtual std::optional<int32_t> pad_id() const = 0;
  virtual std::optional<int32_t> unk_id() const = 0;

  /// What the vocabulary's file is, in the words of the key tokenizer_type: huggingface, sentencepiece or tiktoken.
  virtual std::string_view type() const = 0;
};

/// Puts BOS in front and EOS behind where they are asked for, exist and are not there already: exactly one each.
void add_bos_and_eos(std::vector<int32_t>& ids, const Tokenizer& tokenizer, bool adds_bos, bool adds_eos);

/// Reads a tokenizer. What a file is, its content decides.
///
/// @param path  a file: tokenizer.json, a SentencePiece model, a rank file of tiktoken; a folder that holds one
///              (tokenizer.json before the others); or a Hugging Face id ("org/name") that is in the Hugging Face cache
///              of this machine (files/hf_cache.h). A tokenizer_config.json beside a tokenizer.json is read for the
///              roles (BOS, EOS, pad, unknown), a special_tokens.json beside a rank file for its special tokens.
/// @throws DataError naming file and JSON path or line: not found, malformed, or a component that is not supported
///         (docs/data_formats.md lists what is).
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);

}  // namespace ballast
