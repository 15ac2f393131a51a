// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_pipeline.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "data/object_pool.h"
#include "data/tokenizer_utf8.h"
#include "errors/errors.h"

namespace ballast {
namespace {

/// What one encode() call works with; calls take it from the pool and give it back, so that words met in one text are
/// known in the next.
struct EncodeScratch {
  ModelScratch model;
  WordList words;
};

class PipelineTokenizer : public Tokenizer {
 public:
  explicit PipelineTokenizer(TokenizerParts parts);

  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens) const override;
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const override;
  int64_t vocab_size() const override { return vocab_size_; }
  std::optional<int32_t> token_to_id(std::string_view token) const override { return parts_.id_of(std::string(token)); }
  std::optional<int32_t> bos_id() const override { return parts_.bos; }
  std::optional<int32_t> eos_id() const override { return parts_.eos; }
  std::optional<int32_t> pad_id() const override { return parts_.pad; }
  std::optional<int32_t> unk_id() const override { return parts_.unk; }
  std::string_view type() const override { return parts_.type; }

 private:
  void encode_stretch(std::string_view stretch, bool is_start, EncodeScratch& scratch, std::vector<int32_t>& ids) const;

  TokenizerParts parts_;
  int64_t vocab_size_ = 0;
  mutable ObjectPool<EncodeScratch> pool_;
};

PipelineTokenizer::PipelineTokenizer(TokenizerParts parts) : parts_(std::move(parts)) {
  int32_t largest = parts_.model->largest_id();
  for (const AddedToken& token : parts_.added.tokens()) largest = std::max(largest, token.id);
  for (const std::vector<int32_t>& around : {parts_.around.before, parts_.around.after}) {
    for (const int32_t id : around) largest = std::max(largest, id);
  }
  vocab_size_ = int64_t{largest} + 1;
}

std::vector<int32_t> PipelineTokenizer::encode(std::string_view text, bool add_special_tokens) const {
  if (text.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    throw DataError({.where = "tokenizer.encode",
                     .what = "the text is too long",
                     .got = std::to_string(text.size()) + " bytes",
                     .need = "less than 2 GiB",
                     .attempt = "cutting it into documents"});
  }
  std::string repaired;
  text = valid_utf8(text, repaired);
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + parts_.around.before.size() + parts_.around.after.size());
  if (add_special_tokens) ids.insert(ids.end(), parts_.around.before.begin(), parts_.around.before.end());
  std::unique_ptr<EncodeScratch> scratch = pool_.take();
  for (const TextPiece& piece : parts_.added.cut_raw(text)) {
    if (piece.id) {
      ids.push_back(*piece.id);
    } else {
      encode_stretch(piece.text, piece.text.data() == text.data(), *scratch, ids);
    }
  }
  pool_.give_back(std::move(scratch));
  if (add_special_tokens) ids.insert(ids.end(), parts_.around.after.begin(), parts_.around.after.end());
  return ids;
}

/// @param is_start  the stretch is the start of the document
void PipelineTokenizer::encode_stretch(std::string_view stretch, bool is_start, EncodeScratch& scratch,
                                       std::vector<int32_t>& ids) const {
  std::string normal;
  if (!parts_.normalizer.is_identity()) {
    normal = stretch;
    parts_.normalizer.apply(normal);
    stretch = normal;
  }
  for (const TextPiece& piece : parts_.added.cut_normalized(stretch)) {
    if (piece.id) {
      ids.push_back(*piece.id);
      continue;
    }
    parts_.pre_tokenizer.cut(piece.text, is_start && piece.text.data() == stretch.data(), scratch.words);
    for (const std::string_view word : scratch.words.words) parts_.model->encode(word, scratch.model, ids);
  }
}

std::string PipelineTokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int32_t id : ids) {
    const AddedToken* added = parts_.added.find(id);
    if (added != nullptr && added->special && skip_special_tokens) continue;
    const std::string* token = added != nullptr ? &added->form : parts_.model->token_of(id);
    if (token != nullptr) tokens.push_back(*token);
  }
  return parts_.decoder.decode(std::move(tokens));
}

}  // namespace

std::optional<int32_t> TokenizerParts::id_of(const std::string& name) const {
  if (const AddedToken* token = added.find(name)) return token->id;
  return model->id_of(name);
}

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerParts parts) {
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

}  // namespace ballast
