// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_json.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>

#include "data/tokenizer_added_tokens.h"
#include "data/tokenizer_bpe.h"
#include "data/tokenizer_byte_alphabet.h"
#include "data/tokenizer_json_view.h"
#include "data/tokenizer_normalizer.h"
#include "data/tokenizer_pretokenizer.h"
#include "data/tokenizer_template.h"
#include "data/tokenizer_utf8.h"
#include "errors/errors.h"

namespace ballast {
namespace {

/// What one encode() call works with; calls take it from the pool and give it back, so that words met in one text are
/// known in the next.
struct EncodeScratch {
  BpeScratch bpe;
  WordList words;
};

class ScratchPool {
 public:
  std::unique_ptr<EncodeScratch> take() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<EncodeScratch> scratch = std::move(free_.back());
        free_.pop_back();
        return scratch;
      }
    }
    return std::make_unique<EncodeScratch>();
  }
  void give_back(std::unique_ptr<EncodeScratch> scratch) {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(scratch));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<EncodeScratch>> free_;
};

class JsonTokenizer : public Tokenizer {
 public:
  JsonTokenizer(const JsonView& root, const std::optional<JsonView>& config);

  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens) const override;
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const override;
  int64_t vocab_size() const override { return vocab_size_; }
  std::optional<int32_t> token_to_id(std::string_view token) const override;
  std::optional<int32_t> bos_id() const override { return bos_id_; }
  std::optional<int32_t> eos_id() const override { return eos_id_; }
  std::optional<int32_t> pad_id() const override { return pad_id_; }
  std::optional<int32_t> unk_id() const override { return unk_id_; }

 private:
  void encode_text(std::string_view text, EncodeScratch& scratch, std::vector<int32_t>& ids) const;
  void find_roles(const std::optional<JsonView>& config);
  std::optional<int32_t> well_known(std::initializer_list<const char*> names) const;

  BpeModel model_;  // read first: of another kind of tokenizer, the model says so best
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  AddedTokens added_;
  TokenTemplate template_;
  bool decodes_bytes_ = false;
  int64_t vocab_size_ = 0;
  std::optional<int32_t> bos_id_, eos_id_, pad_id_, unk_id_;
  mutable ScratchPool pool_;
};

/// The pre-tokenizer of a root; its absence has a clearer name than the JSON fault.
JsonView pre_tokenizer_of(const JsonView& root) {
  if (!root.has("pre_tokenizer")) {
    root.fail("no pre_tokenizer", "null", "one that ends in ByteLevel", "a byte-level BPE tokenizer");
  }
  return root.member("pre_tokenizer");
}

/// Whether the decoder turns the byte alphabet into bytes; without one, tokens are joined by spaces as they are.
bool reads_bytes(const JsonView& decoder) {
  if (decoder.type() == "Sequence") {
    const JsonView steps = decoder.member("decoders");
    if (steps.size() != 1) steps.fail("a sequence of decoders has one step", std::to_string(steps.size()), "ByteLevel");
    return reads_bytes(steps.item(0));
  }
  if (decoder.type() != "ByteLevel") decoder.fail_type("ByteLevel or Sequence");
  return true;
}

JsonTokenizer::JsonTokenizer(const JsonView& root, const std::optional<JsonView>& config)
    : model_(root.member("model")),
      normalizer_(root.has("normalizer") ? Normalizer(root.member("normalizer")) : Normalizer()),
      pre_tokenizer_(pre_tokenizer_of(root)) {
  if (root.has("added_tokens")) {
    added_ = AddedTokens(
        root.member("added_tokens"), normalizer_, [this](const std::string& token) { return model_.id_of(token); },
        [this](int32_t id) { return model_.token_of(id); });
  }
  if (root.has("post_processor")) template_.wrap(root.member("post_processor"));
  if (root.has("decoder")) decodes_bytes_ = reads_bytes(root.member("decoder"));
  int32_t largest = model_.largest_id();
  for (const AddedToken& token : added_.tokens()) largest = std::max(largest, token.id);
  for (const std::vector<int32_t>& around : {template_.before, template_.after}) {
    for (const int32_t id : around) largest = std::max(largest, id);
  }
  vocab_size_ = int64_t{largest} + 1;
  find_roles(config);
}

void JsonTokenizer::find_roles(const std::optional<JsonView>& config) {
  const auto declared = [&](const char* key, std::optional<int32_t> otherwise) -> std::optional<int32_t> {
    if (!config || !config->value().contains(key)) return otherwise;
    const JsonView token = config->member(key);
    if (token.is_null()) return std::nullopt;
    return token_to_id(token.value().is_object() ? token.member_text("content") : token.text());
  };
  std::optional<int32_t> bos, eos;
  if (!template_.before.empty()) bos = template_.before.front();
  if (!template_.after.empty()) eos = template_.after.back();
  if (!bos) bos = well_known({"<|bos|>", "<s>", "<|begin_of_text|>", "<bos>"});
  if (!eos) {
    eos = well_known({"<|eos|>", "</s>", "<|end_of_text|>", "<|endoftext|>", "<|im_end|>", "<eos>"});
  }
  bos_id_ = declared("bos_token", bos);
  eos_id_ = declared("eos_token", eos);
  pad_id_ = declared("pad_token", well_known({"<|pad|>", "<pad>", "<|finetune_right_pad_id|>", "[PAD]"}));
  unk_id_ = declared("unk_token", model_.unk_id());
}

std::optional<int32_t> JsonTokenizer::well_known(std::initializer_list<const char*> names) const {
  for (const char* name : names) {
    const AddedToken* token = added_.find(std::string(name));
    if (token != nullptr && token->special) return token->id;
  }
  return std::nullopt;
}

std::optional<int32_t> JsonTokenizer::token_to_id(std::string_view token) const {
  const std::string name(token);
  if (const AddedToken* added = added_.find(name)) return added->id;
  return model_.id_of(name);
}

std::vector<int32_t> JsonTokenizer::encode(std::string_view text, bool add_special_tokens) const {
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
  ids.reserve(text.size() / 3 + template_.before.size() + template_.after.size());
  if (add_special_tokens) ids.insert(ids.end(), template_.before.begin(), template_.before.end());
  std::unique_ptr<EncodeScratch> scratch = pool_.take();
  for (const TextPiece& piece : added_.cut_raw(text)) {
    if (piece.id) {
      ids.push_back(*piece.id);
      continue;
    }
    std::string normal;
    std::string_view stretch = piece.text;
    if (!normalizer_.is_identity()) {
      normal = stretch;
      normalizer_.apply(normal);
      stretch = normal;
    }
    encode_text(stretch, *scratch, ids);
  }
  pool_.give_back(std::move(scratch));
  if (add_special_tokens) ids.insert(ids.end(), template_.after.begin(), template_.after.end());
  return ids;
}

/// Ids of normalised text.
void JsonTokenizer::encode_text(std::string_view text, EncodeScratch& scratch, std::vector<int32_t>& ids) const {
  for (const TextPiece& piece : added_.cut_normalized(text)) {
    if (piece.id) {
      ids.push_back(*piece.id);
      continue;
    }
    pre_tokenizer_.cut(piece.text, scratch.words);
    for (const std::string_view word : scratch.words.words) model_.encode(word, scratch.bpe, ids);
  }
}

std::string JsonTokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::string bytes;
  bool is_first = true;
  for (const int32_t id : ids) {
    const AddedToken* added = added_.find(id);
    if (added != nullptr && added->special && skip_special_tokens) continue;
    const std::string* token = added != nullptr ? &added->form : model_.token_of(id);
    if (token == nullptr) continue;
    if (decodes_bytes_) {
      bytes += token_bytes(*token).value_or(*token);
    } else {
      if (!is_first) bytes += ' ';
      bytes += *token;
    }
    is_first = false;
  }
  std::string repaired;
  return std::string(valid_utf8(bytes, repaired));
}

}  // namespace

std::unique_ptr<Tokenizer> read_tokenizer_json(const std::string& file) {
  const nlohmann::json document = read_json_file(file);
  const JsonView root(document, file);
  const std::string config_file = (std::filesystem::path(file).parent_path() / "tokenizer_config.json").string();
  if (!std::filesystem::exists(config_file)) return std::make_unique<JsonTokenizer>(root, std::nullopt);
  const nlohmann::json config = read_json_file(config_file);
  return std::make_unique<JsonTokenizer>(root, JsonView(config, config_file));
}

}  // namespace ballast
