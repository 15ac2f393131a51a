// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/commands.h"
#include "apps/inspect_checkpoint.h"
#include "apps/listing.h"
#include "checkpoint/checkpoint_folder.h"
#include "config/config.h"
#include "config/resolve.h"
#include "data/loader.h"
#include "data/row_file.h"
#include "data/tokenizer.h"
#include "errors/errors.h"
#include "files/file_list.h"
#include "files/safetensors.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTextShown = 76;
constexpr size_t kIdsShown = 12;

/// The first `most` bytes at whole characters, on one line; "..." where something is missing.
std::string shorten(const std::string& text, size_t most) {
  size_t size = std::min(most, text.size());
  while (size < text.size() && size > 0 && (text[size] & 0xC0) == 0x80) --size;
  std::string line;
  for (const char c : text.substr(0, size)) {
    if (c == '\n') {
      line += "\\n";
    } else {
      line += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? ' ' : c;
    }
  }
  return size < text.size() ? line + " ..." : line;
}

void print_weights(const std::vector<SafetensorsFile>& files) {
  std::vector<StoredTensor> all;
  for (const SafetensorsFile& file : files) {
    std::printf("%s\n", file.path().c_str());
    print_tensors(file.tensors());
    all.insert(all.end(), file.tensors().begin(), file.tensors().end());
    for (const auto& [key, value] : file.metadata()) {
      std::printf("  metadata %s: %s\n", key.c_str(), shorten(value, kTextShown).c_str());
    }
  }
  print_totals(all);
}

void print_table_file(const fs::path& path) {
  const TableSummary summary = summarize_table(path);
  std::printf("%s\n%s, %lld rows", path.c_str(), summary.format.c_str(), static_cast<long long>(summary.rows));
  if (summary.row_groups > 0) std::printf(" in %lld row groups", static_cast<long long>(summary.row_groups));
  std::printf(", %s\n", size_text(fs::file_size(path)).c_str());
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < summary.columns.size(); ++i) {
    rows.push_back({"  " + summary.columns[i].first, summary.columns[i].second,
                    i < summary.first_row.size() ? shorten(summary.first_row[i], kTextShown) : ""});
  }
  print_table(rows);
}

/// Files and folders that hold no checkpoint.
void print_data(const fs::path& path) {
  if (path.extension() == ".safetensors") return print_weights({SafetensorsFile(path)});
  if (!fs::is_directory(path)) return print_table_file(path);
  std::vector<fs::path> tables;
  for (const fs::path& file : list_files(path)) {
    if (is_parquet_name(file) || is_json_lines_name(file) || is_text_name(file)) tables.push_back(file);
  }
  const bool has_weights = fs::exists(path / "model.safetensors") || fs::exists(path / "model.safetensors.index.json");
  if (has_weights || tables.empty()) return print_weights(open_hf_weights(path).files());
  for (const fs::path& file : tables) print_table_file(file);
}

/// @return the exit code
int print_path(const fs::path& path, bool verifies) {
  if (!fs::exists(path)) throw DataError({"inspect: " + path.string(), "does not exist", "", "", ""});
  if (is_checkpoint_folder(path)) {
    inspect_checkpoint(path, verifies);
    return 0;
  }
  if (const fs::path checkpoints = find_checkpoints(path); !checkpoints.empty()) {
    const bool are_good = inspect_checkpoints(checkpoints, verifies);
    return are_good || !verifies ? 0 : static_cast<int>(ErrorKind::kCheckpoint);
  }
  if (verifies) {
    throw ConfigError({"inspect: --verify", "is for checkpoints, whose files have checksums", path.string(),
                       "a checkpoint or the folder of a run", ""});
  }
  print_data(path);
  return 0;
}

std::string ids_text(const std::vector<int32_t>& ids, bool is_full) {
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!is_full && i == kIdsShown && ids.size() > kIdsShown + 1) return text + " ... " + std::to_string(ids.back());
    text += (i > 0 ? " " : "") + std::to_string(ids[i]);
  }
  return text;
}

/// One run of equal segment numbers, [begin, end) in the arrays of the batch.
void print_document(const HostBatch& batch, int64_t begin, int64_t end, const Tokenizer* tokenizer, bool is_full) {
  const int32_t segment = batch.inputs_segmentation[begin];
  const long long num_positions = end - begin;
  if (segment == 0) {
    std::printf("  padding    %lld positions\n", num_positions);
    return;
  }
  const auto counts =
      std::count_if(batch.targets_segmentation.begin() + begin, batch.targets_segmentation.begin() + end,
                    [](int32_t target_segment) { return target_segment != 0; });
  std::printf("  segment %-2d %lld tokens, positions %d..%d, loss tokens %lld\n", segment, num_positions,
              batch.inputs_position[begin], batch.inputs_position[end - 1], static_cast<long long>(counts));
  const std::vector<int32_t> ids(batch.inputs.begin() + begin, batch.inputs.begin() + end);
  std::printf("    ids  %s\n", ids_text(ids, is_full).c_str());
  if (tokenizer == nullptr) return;
  const std::string text = tokenizer->decode(ids, /*skip_special_tokens=*/false);
  std::printf("    text %s\n", shorten(text, is_full ? text.size() : kTextShown).c_str());
}

void print_batch(const HostBatch& batch, int64_t number, const Tokenizer* tokenizer, bool is_full) {
  std::printf("batch %lld: %lld rows of %lld positions, %lld loss tokens\n", static_cast<long long>(number),
              static_cast<long long>(batch.rows), static_cast<long long>(batch.length),
              static_cast<long long>(batch.loss_tokens()));
  for (int64_t row = 0; row < batch.rows; ++row) {
    std::printf("row %lld\n", static_cast<long long>(row));
    const int64_t row_end = (row + 1) * batch.length;
    for (int64_t begin = row * batch.length; begin < row_end;) {
      int64_t end = begin + 1;
      while (end < row_end && batch.inputs_segmentation[end] == batch.inputs_segmentation[begin]) ++end;
      print_document(batch, begin, end, tokenizer, is_full);
      begin = end;
    }
  }
}

void inspect_batch(const Arguments& config_arguments, int64_t number, bool is_full) {
  const Config config = resolve_config(config_arguments, {});
  const std::unique_ptr<BatchSource> source = make_train_source(config, {});
  std::optional<HostBatch> batch;
  for (int64_t i = 0; i <= number; ++i) {
    batch = source->next();
    if (!batch) {
      throw DataError({"inspect: --batch", "the training data end earlier", std::to_string(number),
                       "0.." + std::to_string(i - 1), ""});
    }
  }
  std::unique_ptr<Tokenizer> tokenizer;
  if (config.dataset_type != "synthetic" && !config.tokenizer_path.empty()) {
    tokenizer = load_tokenizer(config.tokenizer_path);
  }
  print_batch(*batch, number, tokenizer.get(), is_full);
}

/// Takes `--batch K` out of the arguments.
std::optional<int64_t> take_batch_number(Arguments& arguments) {
  const auto flag = std::find(arguments.begin(), arguments.end(), "--batch");
  if (flag == arguments.end()) return std::nullopt;
  const std::string text = flag + 1 == arguments.end() ? "" : *(flag + 1);
  int64_t number = -1;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest != text.data() + text.size() || number < 0) {
    throw ConfigError(
        {"inspect: --batch", "needs the number of a batch", text.empty() ? "nothing" : text, "0, 1, 2 ...", ""});
  }
  arguments.erase(flag, flag + 2);
  return number;
}

}  // namespace

int run_inspect(const Arguments& arguments) {
  Arguments rest = arguments;
  const std::optional<int64_t> batch_number = take_batch_number(rest);
  const bool is_full = std::erase(rest, "--full") > 0;
  const bool verifies = std::erase(rest, "--verify") > 0;
  if (batch_number) {
    inspect_batch(rest, *batch_number, is_full);
  } else if (rest.size() == 1 && rest.front().rfind("--", 0) != 0) {
    return print_path(rest.front(), verifies);
  } else {
    throw ConfigError({"inspect", "takes one path, or a configuration with --batch", "",
                       "PATH [--verify] | CONFIG.yml [key=value ...] --batch K [--full]", ""});
  }
  return 0;
}

}  // namespace ballast
