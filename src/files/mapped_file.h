// SPDX-License-Identifier: Apache-2.0
// A whole file as bytes in memory, read-only, loaded by the system page by page.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "errors/errors.h"

namespace ballast {

/// A file mapped into memory. The file must not shrink while it is mapped.
class MappedFile {
 public:
  /// @throws ErrorOf<kind> naming the file: missing, unreadable, not a regular file
  MappedFile(const std::filesystem::path& path, ErrorKind kind);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// Empty for an empty file.
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace ballast
