// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer_json.h"

#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "data/tokenizer_bpe.h"
#include "data/tokenizer_json_view.h"
#include "data/tokenizer_pipeline.h"
#include "data/tokenizer_unigram.h"

namespace ballast {
namespace {

std::unique_ptr<const TokenModel> read_model(const JsonView& model, bool has_byte_words) {
  // Old files name no type; a Unigram vocabulary is a list.
  const bool is_unigram = model.has("type") ? model.type() == "Unigram" : model.member("vocab").value().is_array();
  if (is_unigram) {
    if (has_byte_words) model.fail("a Unigram model works on characters", "a pre_tokenizer that ends in ByteLevel");
    return std::make_unique<const UnigramModel>(model);
  }
  if (model.has("type") && model.type() != "BPE") model.fail_type("BPE or Unigram");
  return std::make_unique<const BpeModel>(model,
                                          has_byte_words ? BpeModel::Units::kBytes : BpeModel::Units::kCharacters);
}

std::optional<int32_t> well_known(const AddedTokens& added, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const AddedToken* token = added.find(std::string(name));
    if (token != nullptr && token->special) return token->id;
  }
  return std::nullopt;
}

void find_roles(const std::optional<JsonView>& config, TokenizerParts& parts) {
  const auto declared = [&](const char* key, std::optional<int32_t> otherwise) -> std::optional<int32_t> {
    if (!config || !config->value().contains(key)) return otherwise;
    const JsonView token = config->member(key);
    if (token.is_null()) return std::nullopt;
    return parts.id_of(token.value().is_object() ? token.member_text("content") : token.text());
  };
  std::optional<int32_t> bos, eos;
  if (!parts.around.before.empty()) bos = parts.around.before.front();
  if (!parts.around.after.empty()) eos = parts.around.after.back();
  if (!bos) bos = well_known(parts.added, {"<|bos|>", "<s>", "<|begin_of_text|>", "<bos>"});
  if (!eos) {
    eos = well_known(parts.added, {"<|eos|>", "</s>", "<|end_of_text|>", "<|endoftext|>", "<|im_end|>", "<eos>"});
  }
  parts.bos = declared("bos_token", bos);
  parts.eos = declared("eos_token", eos);
  parts.pad =
      declared("pad_token", well_known(parts.added, {"<|pad|>", "<pad>", "<|finetune_right_pad_id|>", "[PAD]"}));
  parts.unk = declared("unk_token", parts.model->unk_id());
}

std::unique_ptr<Tokenizer> read_parts(const JsonView& root, const std::optional<JsonView>& config) {
  TokenizerParts parts;
  parts.type = "huggingface";
  const JsonView model = root.member("model");
  if (root.has("pre_tokenizer")) parts.pre_tokenizer = PreTokenizer(root.member("pre_tokenizer"));
  parts.model = read_model(model, parts.pre_tokenizer.ends_in_bytes());
  if (root.has("normalizer")) parts.normalizer = Normalizer(root.member("normalizer"));
  if (root.has("added_tokens")) {
    parts.added = AddedTokens(
        root.member("added_tokens"), parts.normalizer,
        [&](const std::string& token) { return parts.model->id_of(token); },
        [&](int32_t id) { return parts.model->token_of(id); });
  }
  if (root.has("post_processor")) parts.around.wrap(root.member("post_processor"));
  if (root.has("decoder")) parts.decoder = TokenDecoder(root.member("decoder"));
  find_roles(config, parts);
  return make_tokenizer(std::move(parts));
}

}  // namespace

std::unique_ptr<Tokenizer> read_tokenizer_json(const std::string& file) {
  const nlohmann::json document = read_json_file(file);
  const JsonView root(document, file);
  const std::string config_file = (std::filesystem::path(file).parent_path() / "tokenizer_config.json").string();
  if (!std::filesystem::exists(config_file)) return read_parts(root, std::nullopt);
  const nlohmann::json config = read_json_file(config_file);
  return read_parts(root, JsonView(config, config_file));
}

}  // namespace ballast
