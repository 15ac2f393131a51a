// SPDX-License-Identifier: Apache-2.0
// Bytes as a file, for parsers that read files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace ballast::fuzz {

/// A file in a folder of its own that lives as long as the object.
class InputFile {
 public:
  InputFile(const std::string& name, std::string_view bytes);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  std::string path() const { return (folder_ / name_).string(); }

 private:
  std::filesystem::path folder_;
  std::string name_;
};

}  // namespace ballast::fuzz
