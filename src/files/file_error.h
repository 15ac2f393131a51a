// SPDX-License-Identifier: Apache-2.0
// Errors about a file, in the class that fits what the file is for.
#pragma once

#include <filesystem>
#include <string>

#include "errors/errors.h"

namespace ballast {

/// What is wrong with a file; the parts are those of Fault.
struct FileFault {
  std::string what;
  std::string got = {};
  std::string need = {};
  std::string attempt = {};
};

/// Throws ErrorOf<kind> with "data: path" or "checkpoint: path" as its place. Kinds other than kData and kCheckpoint
/// are faults of ours.
[[noreturn]] void throw_file_error(ErrorKind kind, const std::filesystem::path& path, const FileFault& fault);

/// As throw_file_error, with the system's reason for errno value `error_number` after `what`.
[[noreturn]] void throw_system_error(ErrorKind kind, const std::filesystem::path& path, const std::string& what,
                                     int error_number);

}  // namespace ballast
