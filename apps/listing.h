// SPDX-License-Identifier: Apache-2.0
// Tables and sizes as the commands print them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "files/safetensors.h"

namespace ballast {

/// "1.5 GiB (1610612736 bytes)"
std::string size_text(uint64_t bytes);

/// "[2, 3]"
std::string shape_text(const StoredTensor& tensor);

/// Prints rows with their columns aligned; the last column is as long as it is.
void print_table(const std::vector<std::vector<std::string>>& rows);

/// Prints name, type and shape of each tensor.
void print_tensors(const std::vector<StoredTensor>& tensors);

/// Prints "12 tensors, 1000 parameters, 4000 bytes".
void print_totals(const std::vector<StoredTensor>& tensors);

}  // namespace ballast
