// SPDX-License-Identifier: Apache-2.0
#include "data/byte_stream.h"

#define ZLIB_CONST  // the input is not written to
#include <zlib.h>
#include <zstd.h>

#include <new>
#include <string>
#include <vector>

#include "files/file_error.h"
#include "files/mapped_file.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = size_t{1} << 18;
constexpr size_t kMostInputBytes = size_t{1} << 30;  // zlib counts in 32 bits
constexpr int kAnyWindow = 15;
constexpr int kGzipOnly = 16;
constexpr int kLargestZstdWindowLog = 31;  // what `zstd --long=31` writes

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(const fs::path& path) : file_(path, ErrorKind::kData) {}
  std::string_view next() override {
    if (is_read_) return {};
    is_read_ = true;
    return file_.text();
  }
  void rewind() override { is_read_ = false; }

 private:
  MappedFile file_;
  bool is_read_ = false;
};

/// What the two compressed formats share: the packed file, how far it is read, a piece of unpacked bytes.
class PackedStream : public ByteStream {
 public:
  PackedStream(const fs::path& path, const char* format)
      : path_(path), format_(format), file_(path, ErrorKind::kData), packed_(file_.text()), piece_(kPieceBytes) {
    if (packed_.empty()) throw_file_error(ErrorKind::kData, path_, {"is empty", {}, format_ + " data"});
  }

 protected:
  std::string_view unread() const { return packed_.substr(position_); }
  void advance(size_t num_bytes) { position_ += num_bytes; }
  void to_start() { position_ = 0; }
  std::vector<char>& piece() { return piece_; }

  [[noreturn]] void fail_cut() const {
    throw_file_error(ErrorKind::kData, path_,
                     {"is cut off: its " + format_ + " data go on past byte " + std::to_string(packed_.size()),
                      {},
                      "the whole file",
                      "fetching or writing it again"});
  }
  [[noreturn]] void fail_corrupt(const std::string& reason) const {
    throw_file_error(ErrorKind::kData, path_,
                     {"holds corrupt " + format_ + " data near byte " + std::to_string(position_) + " (" + reason + ")",
                      {},
                      {},
                      "fetching or writing it again"});
  }

 private:
  fs::path path_;
  std::string format_;
  MappedFile file_;
  std::string_view packed_;
  std::vector<char> piece_;
  size_t position_ = 0;  // of the first byte that is not yet used
};

class GzipStream : public PackedStream {
 public:
  explicit GzipStream(const fs::path& path) : PackedStream(path, "gzip") {
    if (inflateInit2(&inflater_, kAnyWindow + kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~GzipStream() override { inflateEnd(&inflater_); }

  std::string_view next() override {
    if (has_ended_) return {};
    inflater_.next_out = reinterpret_cast<Bytef*>(piece().data());
    inflater_.avail_out = static_cast<uInt>(piece().size());
    while (inflater_.avail_out > 0 && !has_ended_) inflate_some();
    return {piece().data(), piece().size() - inflater_.avail_out};
  }

  void rewind() override {
    to_start();
    inflateReset(&inflater_);
    has_ended_ = false;
  }

 private:
  void inflate_some() {
    const std::string_view input = unread().substr(0, kMostInputBytes);
    inflater_.next_in = reinterpret_cast<const Bytef*>(input.data());
    inflater_.avail_in = static_cast<uInt>(input.size());
    const int status = inflate(&inflater_, Z_NO_FLUSH);
    advance(input.size() - inflater_.avail_in);
    if (status == Z_STREAM_END) return end_member();
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status != Z_OK && status != Z_BUF_ERROR) fail_corrupt(inflater_.msg == nullptr ? "damaged" : inflater_.msg);
    if (unread().empty() && inflater_.avail_out > 0) fail_cut();
  }

  void end_member() {
    has_ended_ = unread().find_first_not_of('\0') == std::string_view::npos;
    inflateReset(&inflater_);
  }

  z_stream inflater_{};
  bool has_ended_ = false;
};

class ZstdStream : public PackedStream {
 public:
  explicit ZstdStream(const fs::path& path) : PackedStream(path, "zstd"), context_(ZSTD_createDCtx(), ZSTD_freeDCtx) {
    if (context_ == nullptr) throw std::bad_alloc();
    ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, kLargestZstdWindowLog);
  }

  std::string_view next() override {
    ZSTD_outBuffer out{piece().data(), piece().size(), 0};
    while (out.pos < out.size && !(is_between_frames_ && unread().empty())) {
      const std::string_view input = unread();
      const size_t unpacked_before = out.pos;
      ZSTD_inBuffer in{input.data(), input.size(), 0};
      const size_t status = ZSTD_decompressStream(context_.get(), &out, &in);
      advance(in.pos);
      if (ZSTD_isError(status)) fail_corrupt(ZSTD_getErrorName(status));
      is_between_frames_ = status == 0;
      if (!is_between_frames_ && unread().empty() && out.pos == unpacked_before) fail_cut();
    }
    return {piece().data(), out.pos};
  }

  void rewind() override {
    to_start();
    ZSTD_DCtx_reset(context_.get(), ZSTD_reset_session_only);
    is_between_frames_ = true;
  }

 private:
  std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context_;
  bool is_between_frames_ = true;
};

}  // namespace

bool is_compressed_name(const fs::path& path) {
  return path.extension() == ".gz" || path.extension() == ".zst";
}

fs::path uncompressed_name(const fs::path& path) {
  return is_compressed_name(path) ? path.parent_path() / path.stem() : path;
}

std::unique_ptr<ByteStream> open_byte_stream(const fs::path& path) {
  if (path.extension() == ".gz") return std::make_unique<GzipStream>(path);
  if (path.extension() == ".zst") return std::make_unique<ZstdStream>(path);
  return std::make_unique<PlainStream>(path);
}

}  // namespace ballast
