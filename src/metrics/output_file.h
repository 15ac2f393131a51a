// SPDX-License-Identifier: Apache-2.0
// A file that is written from front to back and never loses an error.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string_view>

namespace ballast {

/// Buffered output. Every failure (no permission, full disk) raises DataError that names the file.
class OutputFile {
 public:
  enum class Start { kEmpty, kAppend };
  /// Creates the parent folder where it is missing.
  OutputFile(std::filesystem::path path, Start start);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  /// Hands everything to the operating system.
  void flush();
  /// Flushes and waits until the disk has it.
  void sync();
  /// Flushes and cuts the file to its first `num_bytes`; what is written next follows them.
  void cut(uint64_t num_bytes);
  /// Flushes and closes. A closed file accepts nothing more; closing twice is fine.
  void close();
  const std::filesystem::path& path() const { return path_; }

 private:
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_;
  std::FILE* file_ = nullptr;
};

}  // namespace ballast
