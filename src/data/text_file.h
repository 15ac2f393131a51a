// SPDX-License-Identifier: Apache-2.0
// Plain text: each line is a row, as Hugging Face's `text` loader has it.
#pragma once

#include <filesystem>
#include <memory>

#include "data/row_file.h"

namespace ballast {

/// One column, `text`. A line ends with "\n" or "\r\n", which is no part of the row; an empty line is an empty text.
std::unique_ptr<RowFile> open_text(const std::filesystem::path& path, const Column& column);
TableSummary summarize_text(const std::filesystem::path& path);

}  // namespace ballast
