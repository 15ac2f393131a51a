// SPDX-License-Identifier: Apache-2.0
// Lists of files from patterns and folders.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ballast {

/// Existing files and folders that match a shell pattern (`*`, `?`, `[..]`, `{a,b}`, `~`), sorted; a path without
/// wildcards matches itself. Relative patterns start at the working directory.
std::vector<std::filesystem::path> match_pattern(const std::string& pattern);

/// The regular files of a folder, not of its sub-folders, sorted by name.
std::vector<std::filesystem::path> list_files(const std::filesystem::path& folder);

}  // namespace ballast
