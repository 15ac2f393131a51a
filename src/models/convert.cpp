// SPDX-License-Identifier: Apache-2.0
#include "models/convert.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoint/checkpoint_writer.h"
#include "config/resolve.h"
#include "data/tokenizer.h"
#include "errors/log.h"
#include "files/atomic_file.h"
#include "files/atomic_folder.h"
#include "files/file_error.h"
#include "files/hf_cache.h"
#include "files/json_text.h"
#include "files/mapped_file.h"
#include "spec/hf_export.h"
#include "tensor/stored_tensor.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;

constexpr auto kConvertKind = ErrorKind::kCheckpoint;
constexpr const char* kTokenizerNames[] = {"tokenizer.json",          "tokenizer_config.json",
                                           "special_tokens_map.json", "chat_template.jinja",
                                           "tokenizer.model",         "spiece.model",
                                           "sentencepiece.bpe.model", "unigram.model",
                                           "tokenizer.tiktoken",      "tokenizer_llama3.tiktoken",
                                           "special_tokens.json"};

/// Copies the tokenizer files that are there. @return their number
int copy_tokenizer(const fs::path& from, const fs::path& to) {
  int count = 0;
  for (const char* name : kTokenizerNames) {
    if (!fs::is_regular_file(from / name)) continue;
    write_file(to / name, MappedFile(from / name, kConvertKind).text(), kConvertKind);
    ++count;
  }
  return count;
}

/// Copies the tokenizer that a run names: a folder's files, or a file with those beside it. A .json or
/// .model file of another name gets the one that transformers looks for.
/// @return the number of files; 0 if the tokenizer is not on this machine
int copy_run_tokenizer(const std::string& path, const fs::path& to) {
  if (fs::is_directory(path)) return copy_tokenizer(path, to);
  if (fs::is_regular_file(path)) {
    const int count = copy_tokenizer(fs::absolute(path).parent_path(), to);
    const fs::path extension = fs::path(path).extension();
    const bool is_usual = extension == ".json" || extension == ".model";
    const fs::path name = is_usual ? fs::path("tokenizer" + extension.string()) : fs::path(path).filename();
    write_file(to / name, MappedFile(path, kConvertKind).text(), kConvertKind);
    return count + 1;
  }
  const std::optional<std::string> cached = find_in_hf_cache("models", path, "tokenizer.json");
  return cached ? copy_tokenizer(fs::path(*cached).parent_path(), to) : 0;
}

/// Ids of the tokens with a role, as far as the tokenizer can be read.
void find_token_ids(const std::string& path, HfExport& more) {
  try {
    const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(path);
    more.bos_token_id = tokenizer->bos_id();
    more.eos_token_id = tokenizer->eos_id();
    more.pad_token_id = tokenizer->pad_id();
  } catch (const DataError& error) {
    log_warning(std::string(error.what()) + "; bos_token_id, eos_token_id and pad_token_id are null in config.json");
  }
}

/// Tokenizer files into `folder`, and the ids they give into `more`.
void export_tokenizer(const std::string& path, const fs::path& folder, HfExport& more) {
  if (path.empty()) return;
  if (copy_run_tokenizer(path, folder) == 0) {
    log_info("convert: no tokenizer file at tokenizer_path " + path + "; none is copied");
    return;
  }
  find_token_ids(path, more);
}

/// transformers' name of an element type that convert writes.
std::string hf_type_name(StoredType type) {
  return type == StoredType::kF32 ? "float32" : type == StoredType::kBF16 ? "bfloat16" : "float16";
}

}  // namespace

Config config_of_checkpoint(const CheckpointReader& reader) {
  reader.document(kConfigName);  // for its checksum
  ConfigOptions options;
  options.environment.emplace();
  options.needs_data = false;
  return config_from_file((reader.folder() / kConfigName).string(), options);
}

void convert_to_hf(const CheckpointReader& from, const fs::path& to, const HfWriteOptions& options) {
  const Config config = config_of_checkpoint(from);
  const std::unique_ptr<WeightFiles> weights = open_checkpoint_weight_files(from, make_decoder_spec(config));
  HfExport more;
  more.dtype = hf_type_name(options.type.value_or(StoredType::kF32));
  hf_config_text(config, more);  // refuses before anything is written
  if (config.mtp_num_layers > 0) {
    log_info("convert: mtp_num_layers=" + std::to_string(config.mtp_num_layers) +
             ": prediction modules are left out, transformers has no place for them");
  }
  AtomicFolder folder(to, kConvertKind);
  export_tokenizer(config.tokenizer_path, folder.path(), more);
  write_file(folder.path() / "config.json", hf_config_text(config, more), kConvertKind);
  write_hf_weights(folder.path(), *weights, options);
  folder.publish();
}

void convert_hf_to_hf(const fs::path& from, const fs::path& to, const HfWriteOptions& options) {
  const std::unique_ptr<WeightFiles> weights = open_hf_weight_files(from);
  nlohmann::ordered_json config;
  try {
    config = nlohmann::ordered_json::parse(MappedFile(from / "config.json", kConvertKind).text());
  } catch (const nlohmann::json::exception& error) {
    throw_file_error(kConvertKind, from / "config.json", {.what = std::string("is not JSON (") + error.what() + ")"});
  }
  if (!config.is_object()) throw_file_error(kConvertKind, from / "config.json", {.what = "is not an object"});
  if (options.type) config[config.contains("torch_dtype") ? "torch_dtype" : "dtype"] = hf_type_name(*options.type);
  AtomicFolder folder(to, kConvertKind);
  copy_tokenizer(from, folder.path());
  write_file(folder.path() / "config.json", config.dump(2) + "\n", kConvertKind);
  write_hf_weights(folder.path(), *weights, options);
  folder.publish();
}

void convert_to_checkpoint(const fs::path& from, const fs::path& to) {
  ConfigOptions options;
  options.environment.emplace();
  options.needs_data = false;
  Config config = config_from_pairs({"hf_model_path=" + from.string()}, options);
  const bool has_tokenizer = std::any_of(std::begin(kTokenizerNames), std::end(kTokenizerNames),
                                         [&](const char* name) { return fs::exists(from / name); });
  config.tokenizer_path = has_tokenizer ? fs::canonical(from).string() : "";
  // Names of no run.
  config.run_name.clear();
  config.base_output_directory.clear();
  const std::unique_ptr<WeightFiles> weights = open_hf_weight_files(from, make_decoder_spec(config));
  CheckpointContent content;
  content.kind = CheckpointKind::kWeights;
  content.config = config_yml(config);
  content.tensor_files = {{kModelName, master_tensors(*weights)}};
  CheckpointWriter(to, std::move(content)).write();
}

}  // namespace ballast
