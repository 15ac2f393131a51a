// SPDX-License-Identifier: Apache-2.0
#include "models/convert.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

#include "apps/commands.h"
#include "checkpoint/checkpoint_folder.h"
#include "errors/errors.h"
#include "errors/log.h"
#include "files/atomic_folder.h"
#include "files/file_error.h"
#include "tensor/heap.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsage = "FROM TO [--dtype float32|bfloat16|float16] [--max_shard_size 5GB] [--names hf]";

[[noreturn]] void refuse_argument(const std::string& what, const std::string& got, const std::string& need) {
  throw ConfigError({.where = "convert", .what = what, .got = got, .need = need, .attempt = {}});
}

struct ConvertArguments {
  fs::path from, to;
  HfWriteOptions options;
  std::string hf_option;        ///< an option that only a Hugging Face folder can follow; empty: none was given
  bool asks_for_names = false;  ///< --names: the result is a Hugging Face folder
};

StoredType parse_type(const std::string& text) {
  if (text == "float32") return StoredType::kF32;
  if (text == "bfloat16") return StoredType::kBF16;
  if (text == "float16") return StoredType::kF16;
  refuse_argument("--dtype has an unknown value", text, "float32, bfloat16 or float16");
}

/// "5GB", "500 MB", "1.5GiB" or a number of bytes.
uint64_t parse_size(const std::string& text) {
  constexpr std::pair<const char*, double> kUnits[] = {
      {"", 1},      {"B", 1},        {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
      {"TB", 1e12}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  const std::string unit(rest, text.data() + text.size());
  for (const auto& [name, bytes] : kUnits) {
    if (error != std::errc() || unit != name) continue;
    const double size = std::floor(number * bytes);
    if (size >= 1 && size < 0x1p63) return static_cast<uint64_t>(size);
  }
  refuse_argument("--max_shard_size is no size", text, "a number of bytes, or of KB, MB, GB, TB, KiB, MiB, GiB, TiB");
}

/// Without a slash at its end, so that names can be made from it.
fs::path folder_name(const std::string& text) {
  const fs::path path = fs::path(text).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

ConvertArguments parse_convert(const Arguments& arguments) {
  ConvertArguments parsed;
  std::vector<std::string> paths;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (!name.starts_with("-")) {
      paths.push_back(name);
      continue;
    }
    if (name != "--dtype" && name != "--max_shard_size" && name != "--names") {
      refuse_argument("unknown option", name, kUsage);
    }
    if (++i == arguments.size()) refuse_argument("an option lacks its value", name, kUsage);
    if (name == "--dtype") {
      parsed.options.type = parse_type(arguments[i]);
    } else if (name == "--max_shard_size") {
      parsed.options.max_shard_bytes = parse_size(arguments[i]);
    } else {
      if (arguments[i] != "hf") refuse_argument("--names has an unknown value", arguments[i], "hf");
      parsed.asks_for_names = true;
      continue;
    }
    parsed.hf_option = name;
  }
  if (paths.size() != 2 || paths[0].empty() || paths[1].empty()) {
    refuse_argument("takes two folders", std::to_string(paths.size()) + " of them", kUsage);
  }
  parsed.from = folder_name(paths[0]);
  parsed.to = folder_name(paths[1]);
  return parsed;
}

void convert_newest(const fs::path& checkpoints, const ConvertArguments& arguments) {
  const auto use = [&](const CheckpointReader& reader) {
    log_info("convert: " + reader.folder().string() + " is the newest checkpoint of " + arguments.from.string());
    convert_to_hf(reader, arguments.to, arguments.options);
  };
  if (!use_newest_checkpoint(checkpoints, use)) {
    throw_file_error(ErrorKind::kCheckpoint, checkpoints, {.what = "has no checkpoint"});
  }
}

}  // namespace

int run_convert(const Arguments& arguments) {
  const ConvertArguments parsed = parse_convert(arguments);
  return_freed_memory();
  const fs::path& from = parsed.from;
  if (!fs::exists(from)) throw_file_error(ErrorKind::kCheckpoint, from, {.what = "does not exist"});
  check_free_folder(parsed.to, ErrorKind::kCheckpoint);
  if (is_checkpoint_folder(from)) {
    convert_to_hf(CheckpointReader(from), parsed.to, parsed.options);
  } else if (fs::is_regular_file(from / "config.json")) {
    if (parsed.asks_for_names) {
      convert_hf_to_hf(from, parsed.to, parsed.options);
    } else if (parsed.hf_option.empty()) {
      convert_to_checkpoint(from, parsed.to);
    } else {
      refuse_argument(parsed.hf_option + " has no meaning for a checkpoint, which holds float32 in one file",
                      from.string() + ", a Hugging Face folder", "--names hf to write a Hugging Face folder again");
    }
  } else if (const fs::path checkpoints = find_checkpoints(from); !checkpoints.empty()) {
    convert_newest(checkpoints, parsed);
  } else {
    throw_file_error(ErrorKind::kCheckpoint, from,
                     {.what = "is neither a checkpoint nor a Hugging Face folder",
                      .got = {},
                      .need = "a folder with manifest.json or config.json, or the folder of a run"});
  }
  std::printf("%s\n", parsed.to.c_str());
  return 0;
}

}  // namespace ballast
