// SPDX-License-Identifier: Apache-2.0
#include "apps/listing.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace ballast {

std::string size_text(uint64_t bytes) {
  const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  char text[64];
  std::snprintf(text, sizeof(text), "%.1f %s (%llu bytes)", value, units[unit], static_cast<unsigned long long>(bytes));
  return unit == 0 ? std::to_string(bytes) + " bytes" : text;
}

std::string shape_text(const StoredTensor& tensor) {
  const std::string description = tensor.description();
  return description.substr(description.find('['));
}

void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i + 1 < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
    }
    std::printf("%s\n", line.c_str());
  }
}

void print_tensors(const std::vector<StoredTensor>& tensors) {
  std::vector<std::vector<std::string>> rows;
  for (const StoredTensor& tensor : tensors) {
    rows.push_back({"  " + tensor.name, std::string(stored_type_name(tensor.type)), shape_text(tensor)});
  }
  print_table(rows);
}

void print_totals(const std::vector<StoredTensor>& tensors) {
  int64_t num_elements = 0;
  uint64_t num_bytes = 0;
  for (const StoredTensor& tensor : tensors) {
    num_elements += tensor.num_elements();
    num_bytes += static_cast<uint64_t>(tensor.num_bytes());
  }
  std::printf("%zu tensors, %lld parameters, %s\n", tensors.size(), static_cast<long long>(num_elements),
              size_text(num_bytes).c_str());
}

}  // namespace ballast
