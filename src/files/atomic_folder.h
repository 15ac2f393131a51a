// SPDX-License-Identifier: Apache-2.0
// A folder that appears whole or not at all.
#pragma once

#include <filesystem>

#include "errors/errors.h"

namespace ballast {

/// Files are written into a folder beside the target; publish() gives it the target's name. Without publish() the
/// destructor removes it and the target stays as it was.
class AtomicFolder {
 public:
  /// Folders above `target` are made. @throws ErrorOf<kind>
  AtomicFolder(std::filesystem::path target, ErrorKind kind);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  /// Where to write.
  const std::filesystem::path& path() const { return folder_; }
  /// @throws ErrorOf<kind>, also if the target is there by now and is not an empty folder
  void publish();

 private:
  std::filesystem::path target_;
  std::filesystem::path folder_;  // empty once published
  ErrorKind kind_;
};

/// To be asked before long work. @throws ErrorOf<kind> if `target` is there and is not an empty folder
void check_free_folder(const std::filesystem::path& target, ErrorKind kind);

}  // namespace ballast
