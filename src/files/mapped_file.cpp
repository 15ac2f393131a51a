// SPDX-License-Identifier: Apache-2.0
#include "files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "files/file_error.h"

namespace ballast {

MappedFile::MappedFile(const std::filesystem::path& path, ErrorKind kind) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw_system_error(kind, path, "cannot be opened", errno);
  struct stat status{};
  void* address = nullptr;
  int error_number = ::fstat(file, &status) == 0 ? 0 : errno;
  if (error_number == 0 && !S_ISREG(status.st_mode)) error_number = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
  if (error_number == 0 && status.st_size > 0) {
    address = ::mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_SHARED, file, 0);
    if (address == MAP_FAILED) error_number = errno;
  }
  ::close(file);  // the mapping holds on to the file
  if (error_number != 0) throw_system_error(kind, path, "cannot be read", error_number);
  data_ = static_cast<const std::byte*>(address);
  size_ = static_cast<size_t>(status.st_size);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace ballast
