// SPDX-License-Identifier: Apache-2.0
#include "metrics/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "files/file_error.h"

namespace ballast {

OutputFile::OutputFile(std::filesystem::path path, Start start) : path_(std::move(path)) {
  std::error_code ignored;  // fopen reports what is wrong
  if (path_.has_parent_path()) std::filesystem::create_directories(path_.parent_path(), ignored);
  file_ = std::fopen(path_.c_str(), start == Start::kEmpty ? "wb" : "ab");
  if (!file_) fail("cannot be opened for writing");
}

OutputFile::~OutputFile() {
  if (file_) std::fclose(file_);
}

void OutputFile::write(std::string_view bytes) {
  if (!file_) return;
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) fail("cannot be written");
}

void OutputFile::flush() {
  if (file_ && std::fflush(file_) != 0) fail("cannot be written");
}

void OutputFile::sync() {
  flush();
  if (file_ && ::fdatasync(::fileno(file_)) != 0 && errno != EINVAL) fail("cannot be written");
}

void OutputFile::cut(uint64_t num_bytes) {
  flush();
  if (!file_) return;
  const bool is_cut = ::ftruncate(::fileno(file_), static_cast<off_t>(num_bytes)) == 0;
  if (!is_cut || std::fseek(file_, 0, SEEK_END) != 0) fail("cannot be cut");
}

void OutputFile::close() {
  if (!file_) return;
  flush();
  if (std::fclose(std::exchange(file_, nullptr)) != 0) fail("cannot be written");
}

void OutputFile::fail(const char* what) const {
  throw_system_error(ErrorKind::kData, path_, what, errno);
}

}  // namespace ballast
