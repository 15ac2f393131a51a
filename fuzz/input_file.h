// SPDX-License-Identifier: Apache-2.0
// Bytes as a file, for parsers that read files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace ballast::fuzz {

/// A file, or several, in a folder of their own that lives as long as the object.
class InputFile {
 public:
  InputFile(const std::string& name, std::string_view bytes);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  /// Puts another file into the folder.
  void add(const std::string& name, std::string_view bytes);
  /// Of the first file.
  std::string path() const { return (folder_ / name_).string(); }

 private:
  std::filesystem::path folder_;
  std::string name_;
};

}  // namespace ballast::fuzz
