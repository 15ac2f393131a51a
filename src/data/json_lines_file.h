// SPDX-License-Identifier: Apache-2.0
// JSON lines: one JSON object a line, compressed or not.
#pragma once

#include <filesystem>
#include <memory>

#include "data/row_file.h"

namespace ballast {

/// Empty lines are no rows. The first row must have the column; a later row without it counts as null.
std::unique_ptr<RowFile> open_json_lines(const std::filesystem::path& path, const Column& column);
/// Columns and types are those of the first row.
TableSummary summarize_json_lines(const std::filesystem::path& path);

}  // namespace ballast
