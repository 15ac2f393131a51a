// SPDX-License-Identifier: Apache-2.0
// The lines of a file, compressed or not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "data/byte_stream.h"

namespace ballast {

/// Lines end with "\n"; the last one may end with the file. A line inside one piece of the stream is not copied.
class LineReader {
 public:
  /// @throws DataError as open_byte_stream() and ByteStream::next()
  explicit LineReader(const std::filesystem::path& path) : stream_(open_byte_stream(path)) {}

  /// The next line without its "\n", valid until the next call.
  /// @return false at the end of the file
  bool next(std::string_view& line);
  void rewind();
  int64_t line_number() const { return line_number_; }  ///< 1-based number of the last line

 private:
  std::unique_ptr<ByteStream> stream_;
  std::string_view piece_;  // what is left of the stream's current piece
  std::string joined_;      // a line that spans pieces
  int64_t line_number_ = 0;
};

}  // namespace ballast
