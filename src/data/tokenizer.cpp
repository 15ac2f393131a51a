// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer.h"

#include <filesystem>

#include "data/tokenizer_json.h"
#include "errors/errors.h"
#include "files/hf_cache.h"

namespace ballast {
namespace fs = std::filesystem;

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path) {
  if (fs::is_directory(path)) {
    const std::string file = (fs::path(path) / "tokenizer.json").string();
    if (fs::exists(file)) return read_tokenizer_json(file);
    throw DataError({.where = "data: " + path,
                     .what = "the folder has no tokenizer",
                     .got = {},
                     .need = "a tokenizer.json in it",
                     .attempt = {}});
  }
  const std::string extension = fs::path(path).extension().string();
  if (extension == ".model" || extension == ".tiktoken") {
    throw DataError({.where = "data: " + path,
                     .what = "this kind of tokenizer file is not supported",
                     .got = extension,
                     .need = "a tokenizer.json",
                     .attempt = "the tokenizer.json of the same model"});
  }
  if (fs::exists(path)) return read_tokenizer_json(path);
  if (const std::optional<std::string> cached = find_in_hf_cache("models", path, "tokenizer.json")) {
    return read_tokenizer_json(*cached);
  }
  throw DataError(
      {.where = "data: " + path,
       .what = "no such tokenizer, neither as a file or folder nor in the Hugging Face cache " + hf_cache_folder(),
       .got = {},
       .need = "a tokenizer.json, a folder that holds one, or the id of a cached model",
       .attempt = "fetching the model's tokenizer.json and naming that file"});
}

}  // namespace ballast
