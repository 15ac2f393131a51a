// SPDX-License-Identifier: Apache-2.0
#include "files/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <utility>

#include "files/file_error.h"

namespace ballast {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path target, ErrorKind kind) : target_(std::move(target)), kind_(kind) {
  static std::atomic<uint64_t> counter{0};
  do {  // a name left behind by a killed process is passed over
    temporary_ = folder_of(target_) / ("." + target_.filename().string() + ".tmp-" + std::to_string(::getpid()) + "-" +
                                       std::to_string(counter++));
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (file_ < 0 && errno == EEXIST);
  if (file_ < 0) throw_system_error(kind_, target_, "cannot be written", errno);
}

AtomicFile::~AtomicFile() {
  if (file_ >= 0) ::close(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::reserve(uint64_t size_bytes) {
  if (size_bytes == 0) return;
  int error_number = 0;
  do {  // a signal may end the call early
    error_number = ::posix_fallocate(file_, 0, static_cast<off_t>(size_bytes));
  } while (error_number == EINTR);
  if (error_number != 0) throw_system_error(kind_, target_, "cannot be written", error_number);
}

void AtomicFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_system_error(kind_, target_, "cannot be written", errno);
    offset += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::append(std::string_view text) {
  write_at(appended_bytes_, std::as_bytes(std::span(text)));
  appended_bytes_ += text.size();
}

void AtomicFile::commit() {
  if (::fsync(file_) != 0) throw_system_error(kind_, target_, "cannot be written", errno);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    throw_system_error(kind_, target_, "cannot take its name", errno);
  }
  temporary_.clear();
  sync_folder(folder_of(target_));
}

void write_file(const std::filesystem::path& target, std::string_view text, ErrorKind kind) {
  AtomicFile file(target, kind);
  file.append(text);
  file.commit();
}

void sync_folder(const std::filesystem::path& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  ::fsync(folder);
  ::close(folder);
}

}  // namespace ballast
