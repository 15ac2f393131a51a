// SPDX-License-Identifier: Apache-2.0
#include "files/file_error.h"

#include <system_error>

namespace ballast {

void throw_file_error(ErrorKind kind, const std::filesystem::path& path, const FileFault& fault) {
  const bool is_data = kind == ErrorKind::kData;
  BALLAST_CHECK(is_data || kind == ErrorKind::kCheckpoint, "a file is data or a checkpoint");
  const Fault line{(is_data ? "data: " : "checkpoint: ") + path.string(), fault.what, fault.got, fault.need,
                   fault.attempt};
  if (is_data) throw DataError(line);
  throw CheckpointError(line);
}

void throw_system_error(ErrorKind kind, const std::filesystem::path& path, const std::string& what, int error_number) {
  throw_file_error(kind, path, {.what = what + " (" + std::generic_category().message(error_number) + ")"});
}

}  // namespace ballast
