// SPDX-License-Identifier: Apache-2.0
// gzip members and zstd frames, made by the libraries themselves.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <string>

namespace ballast {

inline std::string gzip(const std::string& text) {
  z_stream deflater{};
  EXPECT_EQ(deflateInit2(&deflater, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&deflater, text.size()), '\0');
  deflater.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  deflater.avail_in = static_cast<uInt>(text.size());
  deflater.next_out = reinterpret_cast<Bytef*>(packed.data());
  deflater.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&deflater, Z_FINISH), Z_STREAM_END);
  packed.resize(deflater.total_out);
  deflateEnd(&deflater);
  return packed;
}

/// One frame with a checksum, as the zstd command writes it.
inline std::string zstd(const std::string& text) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  const size_t size = ZSTD_compress2(context, packed.data(), packed.size(), text.data(), text.size());
  EXPECT_FALSE(ZSTD_isError(size));
  packed.resize(size);
  ZSTD_freeCCtx(context);
  return packed;
}

}  // namespace ballast
