// SPDX-License-Identifier: Apache-2.0
#include "files/file_list.h"

#include <glob.h>

#include <algorithm>

namespace ballast {

std::vector<std::filesystem::path> match_pattern(const std::string& pattern) {
  glob_t found{};
  std::vector<std::filesystem::path> paths;
  if (::glob(pattern.c_str(), GLOB_BRACE | GLOB_TILDE, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  // Brace groups are matched one after another; the list is sorted as a whole.
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

std::vector<std::filesystem::path> list_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace ballast
