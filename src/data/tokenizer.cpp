// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer.h"

#include <array>
#include <filesystem>
#include <fstream>

#include "data/tokenizer_json.h"
#include "data/tokenizer_sentencepiece.h"
#include "data/tokenizer_tiktoken.h"
#include "errors/errors.h"
#include "files/hf_cache.h"

namespace ballast {
namespace fs = std::filesystem;
namespace {

/// What tokenizers are called in a folder, the most telling first.
constexpr std::array<const char*, 7> kNames = {"tokenizer.json",           "tokenizer.model", "spiece.model",
                                               "sentencepiece.bpe.model",  "unigram.model",   "tokenizer.tiktoken",
                                               "tokenizer_llama3.tiktoken"};

std::unique_ptr<Tokenizer> read_file_of_any_type(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string start(512, '\0');
  stream.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<size_t>(stream.gcount()));
  const size_t first = start.find_first_not_of(" \t\r\n");
  if (looks_like_tiktoken(start)) return read_tiktoken(file);
  const std::string extension = fs::path(file).extension().string();
  const bool is_json = extension == ".json" || (first != std::string::npos && start[first] == '{');
  if (!is_json && extension == ".tiktoken") return read_tiktoken(file);
  return is_json || extension != ".model" ? read_tokenizer_json(file) : read_sentencepiece(file);
}

}  // namespace

void add_bos_and_eos(std::vector<int32_t>& ids, const Tokenizer& tokenizer, bool adds_bos, bool adds_eos) {
  const std::optional<int32_t> bos = tokenizer.bos_id();
  const std::optional<int32_t> eos = tokenizer.eos_id();
  if (adds_bos && bos && (ids.empty() || ids.front() != *bos)) ids.insert(ids.begin(), *bos);
  if (adds_eos && eos && (ids.empty() || ids.back() != *eos)) ids.push_back(*eos);
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path) {
  constexpr const char* kFiles = "a tokenizer.json, tokenizer.model, spiece.model or *.tiktoken";
  if (fs::is_directory(path)) {
    for (const char* name : kNames) {
      const fs::path file = fs::path(path) / name;
      if (fs::exists(file)) return read_file_of_any_type(file.string());
    }
    throw DataError({.where = "data: " + path,
                     .what = "the folder has no tokenizer",
                     .got = {},
                     .need = std::string(kFiles) + " in it",
                     .attempt = {}});
  }
  if (fs::exists(path)) return read_file_of_any_type(path);
  for (const char* name : kNames) {
    if (const std::optional<std::string> cached = find_in_hf_cache("models", path, name)) {
      return read_file_of_any_type(*cached);
    }
  }
  throw DataError(
      {.where = "data: " + path,
       .what = "no such tokenizer, neither as a file or folder nor in the Hugging Face cache " + hf_cache_folder(),
       .got = {},
       .need = std::string(kFiles) + ", a folder that holds one, or the id of a cached model",
       .attempt = "fetching the model's tokenizer.json and naming that file"});
}

}  // namespace ballast
