// SPDX-License-Identifier: Apache-2.0
// A file that appears whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "errors/errors.h"

namespace ballast {

/// Collects the content in a hidden file beside the target; commit() gives it the target's name. Without commit() the
/// destructor removes it and the target stays as it was. Faults name the target.
class AtomicFile {
 public:
  /// @throws ErrorOf<kind> when the folder is missing or not writable; all members throw this kind
  AtomicFile(std::filesystem::path target, ErrorKind kind);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Sets the size and takes the disk space now, so that a full disk shows before the work is done.
  void reserve(uint64_t size_bytes);
  /// Writes at a position; safe from several threads on ranges that do not overlap.
  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  /// Writes after everything appended so far.
  void append(std::string_view text);
  /// Syncs the content, renames, and syncs the folder.
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  ErrorKind kind_;
  int file_ = -1;
  uint64_t appended_bytes_ = 0;
};

/// The whole content of a file at once.
void write_file(const std::filesystem::path& target, std::string_view text, ErrorKind kind);

/// Makes names in a folder last: creations, renames, removals. Where the system cannot, nothing happens.
void sync_folder(const std::filesystem::path& path);

}  // namespace ballast
