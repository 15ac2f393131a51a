// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "files/file_error.h"
#include "files/json_text.h"
#include "files/mapped_file.h"
#include "files/safetensors.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kSingleName = "model.safetensors";

/// tensor name -> shard file name
std::map<std::string, std::string> read_index(const fs::path& path) {
  const MappedFile file(path, ErrorKind::kCheckpoint);
  json index;
  try {
    index = parse_json(file.text());
  } catch (const json::exception& error) {
    throw_file_error(ErrorKind::kCheckpoint, path, {.what = std::string("is not JSON (") + error.what() + ")"});
  }
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    throw_file_error(ErrorKind::kCheckpoint, path, {.what = "has no weight_map object"});
  }
  std::map<std::string, std::string> shard_of;
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    if (!shard.is_string()) {
      throw_file_error(ErrorKind::kCheckpoint, path, {.what = "weight_map entry '" + tensor + "' names no file"});
    }
    shard_of[tensor] = shard.get<std::string>();
  }
  return shard_of;
}

SafetensorsFolder open_shards(const fs::path& folder) {
  const fs::path index_path = folder / kIndexName;
  const std::map<std::string, std::string> shard_of = read_index(index_path);
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : shard_of) {
    if (shards.insert(shard).second && !fs::is_regular_file(folder / shard)) {
      throw_file_error(ErrorKind::kCheckpoint, index_path,
                       {.what = "names the shard '" + shard + "', which is missing in its folder"});
    }
  }
  std::map<std::string, size_t> position;
  std::vector<SafetensorsFile> files;
  for (const std::string& shard : shards) {
    position[shard] = files.size();
    files.emplace_back(folder / shard);
  }
  for (const auto& [tensor, shard] : shard_of) {
    if (files[position[shard]].find(tensor) == nullptr) {
      throw_file_error(ErrorKind::kCheckpoint, index_path,
                       {.what = "says that tensor '" + tensor + "' is in '" + shard + "', which lacks it"});
    }
  }
  return SafetensorsFolder(std::move(files));
}

SafetensorsFolder open_one(const fs::path& path) {
  std::vector<SafetensorsFile> files;
  files.emplace_back(path);
  return SafetensorsFolder(std::move(files));
}

}  // namespace

SafetensorsFolder::SafetensorsFolder(std::vector<SafetensorsFile> files) : files_(std::move(files)) {
  BALLAST_CHECK(!files_.empty(), "a folder of weights has a file");
  for (size_t i = 0; i < files_.size(); ++i) {
    for (const StoredTensor& tensor : files_[i].tensors()) {
      const auto [entry, is_new] = file_index_.emplace(tensor.name, i);
      if (!is_new) {
        throw_file_error(ErrorKind::kCheckpoint, files_[i].path(),
                         {.what = "tensor '" + tensor.name + "' is also in '" +
                                  files_[entry->second].path().filename().string() + "'"});
      }
    }
  }
}

std::vector<std::string> SafetensorsFolder::names() const {
  std::vector<std::string> all;
  for (const auto& [name, file] : file_index_) all.push_back(name);
  return all;
}

const SafetensorsFile* SafetensorsFolder::find_file(std::string_view name) const {
  const auto found = file_index_.find(name);
  return found == file_index_.end() ? nullptr : &files_[found->second];
}

const StoredTensor* SafetensorsFolder::find(std::string_view name) const {
  const SafetensorsFile* file = find_file(name);
  return file == nullptr ? nullptr : file->find(name);
}

const SafetensorsFile& SafetensorsFolder::file_of(std::string_view name) const {
  const SafetensorsFile* file = find_file(name);
  if (file == nullptr) {
    const fs::path place = files_.size() == 1 ? files_[0].path() : files_[0].path().parent_path();
    throw_file_error(ErrorKind::kCheckpoint, place, {.what = "has no tensor '" + std::string(name) + "'"});
  }
  return *file;
}

const StoredTensor& SafetensorsFolder::at(std::string_view name) const {
  return file_of(name).at(name);
}

std::span<const std::byte> SafetensorsFolder::bytes(std::string_view name) const {
  return file_of(name).bytes(name);
}

SafetensorsFolder open_hf_weights(const fs::path& folder, const fs::path& weights_file) {
  if (!weights_file.empty()) {
    return open_one(fs::exists(weights_file) ? weights_file : folder / weights_file);
  }
  if (fs::exists(folder / kIndexName)) return open_shards(folder);
  if (fs::exists(folder / kSingleName)) return open_one(folder / kSingleName);
  throw_file_error(
      ErrorKind::kCheckpoint, folder,
      {"holds no weights", {}, std::string(kSingleName) + " or " + kIndexName, "naming another weights file"});
}

}  // namespace ballast
