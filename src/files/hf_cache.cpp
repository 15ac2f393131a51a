// SPDX-License-Identifier: Apache-2.0
#include "files/hf_cache.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

namespace ballast {
namespace fs = std::filesystem;
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// "name" or "org/name" of letters, digits, '-', '_' and '.': nothing that could leave the cache folder.
bool is_repository_id(const std::string& id) {
  size_t slashes = 0;
  for (const char c : id) {
    const bool is_plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    if (!is_plain && c != '/') return false;
    slashes += c == '/';
  }
  return slashes <= 1 && !id.empty() && id.front() != '/' && id.back() != '/' && id.front() != '.' &&
         id.find("/.") == std::string::npos;
}

/// Commit that refs/main names; empty without that reference.
std::string main_revision(const fs::path& repository) {
  std::ifstream stream(repository / "refs" / "main");
  std::string revision;
  stream >> revision;
  return revision;
}

}  // namespace

std::string hf_cache_folder() {
  if (const std::string hub = variable("HF_HUB_CACHE"); !hub.empty()) return hub;
  if (const std::string home = variable("HF_HOME"); !home.empty()) return (fs::path(home) / "hub").string();
  std::string cache = variable("XDG_CACHE_HOME");
  if (cache.empty()) cache = (fs::path(variable("HOME")) / ".cache").string();
  return (fs::path(cache) / "huggingface" / "hub").string();
}

std::optional<std::string> find_in_hf_cache(const std::string& kind, const std::string& id,
                                            const std::string& filename) {
  if (!is_repository_id(id)) return std::nullopt;
  std::string folder = kind + "--" + id;
  if (const size_t slash = folder.find('/'); slash != std::string::npos) folder.replace(slash, 1, "--");
  const fs::path repository = fs::path(hf_cache_folder()) / folder;
  const fs::path snapshots = repository / "snapshots";
  std::vector<std::string> revisions;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(snapshots, absent)) revisions.push_back(entry.path().filename());
  std::sort(revisions.begin(), revisions.end());
  if (const std::string revision = main_revision(repository); !revision.empty()) {
    revisions.insert(revisions.begin(), revision);
  }
  for (const std::string& revision : revisions) {
    const fs::path found = filename.empty() ? snapshots / revision : snapshots / revision / filename;
    if (fs::exists(found, absent)) return found.string();
  }
  return std::nullopt;
}

}  // namespace ballast
