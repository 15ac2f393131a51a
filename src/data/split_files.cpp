// SPDX-License-Identifier: Apache-2.0
#include "data/split_files.h"

#include <algorithm>
#include <optional>

#include "data/row_file.h"
#include "errors/errors.h"
#include "files/file_error.h"
#include "files/file_list.h"
#include "files/hf_cache.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;
using Paths = std::vector<fs::path>;

constexpr size_t kNamesListed = 8;

std::string names_of(const Paths& paths) {
  std::string names;
  for (size_t i = 0; i < std::min(paths.size(), kNamesListed); ++i) {
    names += (i > 0 ? ", " : "") + paths[i].filename().string();
  }
  return names + (paths.size() > kNamesListed ? ", ..." : "");
}

/// The folder or file of a data set; nothing for the names of file formats, which stand for explicit files.
std::optional<fs::path> locate(const SplitQuery& query) {
  if (fs::exists(query.path)) return query.path;
  if (const auto cached = find_in_hf_cache("datasets", query.path, "")) return *cached;
  if (!query.files.empty()) return std::nullopt;
  throw DataError({"data: hf_path=" + query.path,
                   "is no folder, no file and no data set in the Hugging Face cache of this machine", "", "",
                   "fetching it first: hf download --repo-type dataset " + query.path});
}

/// Files named by the user: as they stand, else inside the data set's folder.
Paths explicit_files(const SplitQuery& query) {
  const std::optional<fs::path> root = query.path.empty() ? std::nullopt : locate(query);
  Paths all;
  for (const std::string& pattern : query.files) {
    Paths found = match_pattern(pattern);
    if (found.empty() && root) found = match_pattern((*root / pattern).string());
    if (found.empty()) {
      throw DataError({"data: " + query.files_key + "=" + pattern, "matches no file", "", "", ""});
    }
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

fs::path sub_folder(const fs::path& root, const SplitQuery& query) {
  fs::path folder = root;
  for (const auto& [key, name] : {std::pair{"hf_name", query.name}, std::pair{"hf_data_dir", query.data_dir}}) {
    if (name.empty()) continue;
    folder /= name;
    if (!fs::is_directory(folder)) {
      throw_file_error(ErrorKind::kData, folder, {.what = std::string(key) + "=" + name + " is no folder there"});
    }
  }
  return folder;
}

/// Data files of one format in a folder.
Paths data_files(const fs::path& folder) {
  const Paths all = list_files(folder);
  for (const auto is_of_format : {is_parquet_name, is_json_lines_name, is_text_name}) {
    Paths found;
    std::copy_if(all.begin(), all.end(), std::back_inserter(found), is_of_format);
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace

Paths find_split_files(const SplitQuery& query) {
  if (!query.files.empty()) return explicit_files(query);
  const fs::path root = *locate(query);
  if (fs::is_regular_file(root)) {
    if (query.takes_single_file) return {root};
    throw_file_error(ErrorKind::kData, root,
                     {"is one file, which holds no split '" + query.split + "'", {}, {}, "setting " + query.files_key});
  }
  fs::path folder = sub_folder(root, query);
  Paths files = data_files(folder);
  if (files.empty() && fs::is_directory(folder / "data")) files = data_files(folder / "data");
  if (files.empty()) {
    throw_file_error(ErrorKind::kData, folder, {"holds no data files", {}, kDataEndings});
  }
  Paths split;
  std::copy_if(files.begin(), files.end(), std::back_inserter(split),
               [&](const fs::path& path) { return path.filename().string().find(query.split) != std::string::npos; });
  if (split.empty()) {
    throw_file_error(ErrorKind::kData, folder,
                     {"has no file for split '" + query.split + "'", names_of(files),
                      "a name that contains '" + query.split + "'", "setting " + query.files_key});
  }
  return split;
}

}  // namespace ballast
