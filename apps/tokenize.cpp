// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/commands.h"
#include "data/document_batches.h"
#include "data/parallel_encode.h"
#include "data/row_file.h"
#include "data/token_file.h"
#include "data/tokenizer.h"
#include "errors/errors.h"
#include "errors/log.h"
#include "files/atomic_file.h"
#include "files/file_error.h"
#include "files/file_list.h"
#include "files/parallel.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;

struct TokenizeArguments {
  std::string tokenizer;
  std::vector<fs::path> inputs;
  fs::path out;
  std::string column = "text";
  int64_t sequence_length = 2048;
  bool adds_bos = true;
  bool adds_eos = true;
};

[[noreturn]] void refuse_argument(const std::string& what, const std::string& got) {
  throw ConfigError({.where = "tokenize",
                     .what = what,
                     .got = got,
                     .need = "TOKENIZER INPUT ... --out FILE.npy|.bin|.jsonl [--column NAME] [--no_bos] [--no_eos] "
                             "[--sequence_length S]",
                     .attempt = {}});
}

int64_t parse_length(const std::string& text) {
  int64_t length = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (error != std::errc() || rest != text.data() + text.size() || length < 1) {
    refuse_argument("--sequence_length needs a number from 1", text);
  }
  return length;
}

TokenizeArguments parse_arguments(const Arguments& arguments) {
  TokenizeArguments parsed;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const auto value = [&]() -> const std::string& {
      if (i + 1 == arguments.size()) refuse_argument("an option lacks its value", argument);
      return arguments[++i];
    };
    if (argument == "--out") {
      parsed.out = value();
    } else if (argument == "--column") {
      parsed.column = value();
    } else if (argument == "--sequence_length") {
      parsed.sequence_length = parse_length(value());
    } else if (argument == "--no_bos") {
      parsed.adds_bos = false;
    } else if (argument == "--no_eos") {
      parsed.adds_eos = false;
    } else if (argument.starts_with("--")) {
      refuse_argument("an option that means nothing here", argument);
    } else if (parsed.tokenizer.empty()) {
      parsed.tokenizer = argument;
    } else {
      parsed.inputs.emplace_back(argument);
    }
  }
  if (parsed.tokenizer.empty()) refuse_argument("no tokenizer is given", {});
  if (parsed.inputs.empty()) refuse_argument("no input is given", {});
  if (parsed.out.empty()) refuse_argument("--out is missing", {});
  return parsed;
}

/// The data files of a folder, by name: of one format, Parquet before JSON lines before plain text.
std::vector<fs::path> data_files(const fs::path& folder) {
  const std::vector<fs::path> all = list_files(folder);
  for (const auto has_name : {is_parquet_name, is_json_lines_name, is_text_name}) {
    std::vector<fs::path> files;
    std::copy_if(all.begin(), all.end(), std::back_inserter(files), has_name);
    if (!files.empty()) return files;
  }
  throw_file_error(ErrorKind::kData, folder, {"the folder has no data file", {}, kDataEndings});
}

/// The files behind the inputs, in the order given.
std::vector<fs::path> input_files(const TokenizeArguments& arguments) {
  std::vector<fs::path> files;
  for (const fs::path& input : arguments.inputs) {
    if (!fs::exists(input)) throw_file_error(ErrorKind::kData, input, {"no such file"});
    if (!fs::is_directory(input)) {
      files.push_back(input);
      continue;
    }
    const std::vector<fs::path> found = data_files(input);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

struct Counts {
  int64_t documents = 0;
  int64_t tokens = 0;
  uint64_t bytes = 0;
};

/// Ids of the documents' texts, without special tokens.
std::vector<std::vector<int32_t>> encode_batch(const Tokenizer& tokenizer, const std::vector<Document>& documents,
                                               bool add_special_tokens, Counts& counts) {
  std::vector<std::string_view> texts;
  texts.reserve(documents.size());
  for (const Document& document : documents) {
    texts.push_back(document.text);
    counts.bytes += document.text.size();
  }
  counts.documents += static_cast<int64_t>(documents.size());
  return encode_all(tokenizer, texts, add_special_tokens, num_processors());
}

Counts write_token_file(const TokenizeArguments& arguments, const Tokenizer& tokenizer) {
  DocumentBatches batches({.paths = input_files(arguments), .column = {arguments.column, false}, .split = "input"});
  const TokenType type = token_type_for(tokenizer.vocab_size());
  TokenFileWriter file(arguments.out, type);
  const fs::path index_path = fs::path(arguments.out).replace_extension(".index.json");
  AtomicFile index_file(index_path, ErrorKind::kData);  // a folder that is not writable shows now
  Counts counts;
  for (std::vector<Document> batch = batches.next(); !batch.empty(); batch = batches.next()) {
    for (std::vector<int32_t>& ids : encode_batch(tokenizer, batch, /*add_special_tokens=*/false, counts)) {
      add_bos_and_eos(ids, tokenizer, arguments.adds_bos, arguments.adds_eos);
      file.append(ids);
    }
  }
  counts.tokens = file.num_tokens();
  TokenIndex index{arguments.sequence_length, type, arguments.tokenizer, {}};
  index.files.push_back(
      {fs::absolute(arguments.out).lexically_normal().string(), arguments.out.stem().string(), counts.tokens});
  index_file.append(token_index_json(index).dump(1) + "\n");
  file.commit();
  index_file.commit();
  log_info("tokenize: " + arguments.out.string() + " (" + std::string(token_type_name(type)) + ") and " +
           index_path.string());
  return counts;
}

/// Whether the rows of a file are ids to be decoded: JSON lines or Parquet with a column `ids` and no column of text.
bool holds_ids(const fs::path& file, const std::string& text_column) {
  bool has_ids = false;
  for (const auto& [name, type] : summarize_table(file).columns) {
    if (name == text_column) return false;
    has_ids = has_ids || name == "ids";
  }
  return has_ids;
}

/// One line a document: its ids, or for ids their text.
Counts write_json_lines(const TokenizeArguments& arguments, const Tokenizer& tokenizer) {
  AtomicFile out(arguments.out, ErrorKind::kData);
  Counts counts;
  const auto dump = [](const nlohmann::ordered_json& line) { return line.dump() + "\n"; };
  for (const fs::path& file : input_files(arguments)) {
    const bool decodes = holds_ids(file, arguments.column);
    DocumentBatches batches(
        {.paths = {file}, .column = {decodes ? "ids" : arguments.column, decodes}, .split = "input"});
    for (std::vector<Document> batch = batches.next(); !batch.empty(); batch = batches.next()) {
      std::string lines;
      if (decodes) {
        counts.documents += static_cast<int64_t>(batch.size());
        for (const Document& document : batch) {
          counts.tokens += static_cast<int64_t>(document.ids.size());
          lines += dump({{"text", tokenizer.decode(document.ids, /*skip_special_tokens=*/false)}});
        }
      } else {
        Counts again;
        const auto with_special = encode_batch(tokenizer, batch, true, again);
        const auto plain = encode_batch(tokenizer, batch, false, counts);
        for (size_t i = 0; i < plain.size(); ++i) {
          counts.tokens += static_cast<int64_t>(plain[i].size());
          lines += dump({{"ids", with_special[i]}, {"ids_no_special", plain[i]}});
        }
      }
      out.append(lines);
    }
  }
  out.commit();
  log_info("tokenize: " + arguments.out.string());
  return counts;
}

}  // namespace

int run_tokenize(const Arguments& arguments) {
  const TokenizeArguments parsed = parse_arguments(arguments);
  const std::string ending = parsed.out.extension().string();
  if (ending != ".npy" && ending != ".bin" && ending != ".jsonl") {
    refuse_argument("--out has an unknown ending", parsed.out.string());
  }
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(parsed.tokenizer);
  const auto start = std::chrono::steady_clock::now();
  const Counts counts =
      ending == ".jsonl" ? write_json_lines(parsed, *tokenizer) : write_token_file(parsed, *tokenizer);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  char text[160];
  std::snprintf(text, sizeof(text), "%lld documents, %lld tokens, %.1f MB of text, %.1f s, %zu threads",
                static_cast<long long>(counts.documents), static_cast<long long>(counts.tokens),
                static_cast<double>(counts.bytes) / 1e6, seconds, num_processors());
  log_info(std::string("tokenize: ") + text);
  return 0;
}

}  // namespace ballast
