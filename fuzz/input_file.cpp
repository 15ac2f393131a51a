// SPDX-License-Identifier: Apache-2.0
#include "fuzz/input_file.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "errors/errors.h"

namespace ballast::fuzz {

namespace fs = std::filesystem;

InputFile::InputFile(const std::string& name, std::string_view bytes) : name_(name) {
  // Memory where the system offers it: a file is written for every input.
  const fs::path place = fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path();
  std::string folder = (place / "ballast_fuzz_XXXXXX").string();
  BALLAST_CHECK(::mkdtemp(folder.data()) != nullptr, "a temporary folder");
  folder_ = folder;
  add(name, bytes);
}

void InputFile::add(const std::string& name, std::string_view bytes) {
  std::ofstream(folder_ / name, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

InputFile::~InputFile() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

}  // namespace ballast::fuzz
