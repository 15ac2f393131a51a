// SPDX-License-Identifier: Apache-2.0
#include "files/atomic_folder.h"

#include <unistd.h>

#include <string>
#include <system_error>
#include <utility>

#include "files/atomic_file.h"
#include "files/file_error.h"

namespace ballast {

namespace fs = std::filesystem;

void check_free_folder(const fs::path& target, ErrorKind kind) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(target, error))) return;
  if (fs::is_directory(target, error) && fs::is_empty(target, error)) return;
  if (error) throw_system_error(kind, target, "cannot be read", error.value());
  throw_file_error(kind, target, {.what = "is there already", .got = {}, .need = "a new or an empty folder"});
}

AtomicFolder::AtomicFolder(fs::path target, ErrorKind kind) : target_(std::move(target)), kind_(kind) {
  folder_ = target_.string() + ".tmp-" + std::to_string(::getpid());
  std::error_code error;
  fs::remove_all(folder_, error);  // of a killed program that had this number
  fs::create_directories(folder_, error);
  if (error) throw_system_error(kind_, target_, "cannot be created", error.value());
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

void AtomicFolder::publish() {
  sync_folder(folder_);
  std::error_code error;
  fs::rename(folder_, target_, error);
  if (error) throw_system_error(kind_, target_, "cannot take its name", error.value());
  folder_.clear();
  sync_folder(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
}

}  // namespace ballast
