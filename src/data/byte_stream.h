// SPDX-License-Identifier: Apache-2.0
// The bytes of a file from its first to its last, unpacked where the file is compressed as a whole.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

namespace ballast {

/// A file's bytes in pieces, in order.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// The next piece, valid until the next call; empty at the end, and from then on.
  /// @throws DataError naming the file and the byte of the file where its compressed data are cut off or corrupt
  virtual std::string_view next() = 0;
  /// Back to the first byte.
  virtual void rewind() = 0;
};

/// .gz or .zst: compressed as a whole.
bool is_compressed_name(const std::filesystem::path& path);
/// The name without .gz or .zst behind it.
std::filesystem::path uncompressed_name(const std::filesystem::path& path);

/// Opens by the ending. Any other file comes as one piece, mapped into memory. A `.gz` file may hold several gzip
/// members with zero bytes behind the last one (RFC 1952; the checksum of each is tested), a `.zst` file several frames
/// (RFC 8878; a checksum is tested where the frame has one). Compressed files are unpacked piece by piece, so memory
/// does not grow with the file.
/// @throws DataError naming the file: missing, unreadable; compressed by name and without a byte
std::unique_ptr<ByteStream> open_byte_stream(const std::filesystem::path& path);

}  // namespace ballast
