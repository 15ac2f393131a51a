// SPDX-License-Identifier: Apache-2.0
// Parquet through Arrow: the file is mapped, one row group is decoded at a time, text is not copied again.
#pragma once

#include <filesystem>
#include <memory>

#include "data/row_file.h"

namespace ballast {

/// Text columns: string, large_string, string_view, binary and dictionaries of them. Id columns: lists of any integer.
std::unique_ptr<RowFile> open_parquet(const std::filesystem::path& path, const Column& column);
TableSummary summarize_parquet(const std::filesystem::path& path);

}  // namespace ballast
