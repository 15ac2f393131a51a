// SPDX-License-Identifier: Apache-2.0
#include "data/byte_stream.h"

#include <gtest/gtest.h>

#include "data/packed_bytes.h"
#include "errors/errors.h"
#include "files/temp_folder.h"

namespace ballast {
namespace {

/// Everything in a file; every piece must hold a byte.
std::string unpacked(const std::filesystem::path& path) {
  const std::unique_ptr<ByteStream> stream = open_byte_stream(path);
  std::string text;
  for (std::string_view piece = stream->next(); !piece.empty(); piece = stream->next()) text += piece;
  EXPECT_TRUE(stream->next().empty());
  return text;
}

std::string fault(const std::filesystem::path& path) {
  return error_line<DataError>([&] { unpacked(path); });
}

/// More than two pieces, no two parts alike.
std::string long_text() {
  std::string text;
  for (int i = 0; text.size() < 700'000; ++i) text += "line " + std::to_string(i * 7919 % 100'003) + "\n";
  return text;
}

TEST(ByteStream, UnpacksWhatTheLibrariesPacked) {
  const TempFolder folder;
  for (const std::string& text : {std::string(), std::string("a"), long_text()}) {
    EXPECT_EQ(unpacked(folder.write("t.gz", gzip(text))), text);
    EXPECT_EQ(unpacked(folder.write("t.zst", zstd(text))), text);
    EXPECT_EQ(unpacked(folder.write("t.txt", text)), text);
  }
}

// Bytes of `printf 'hello\nworld\n' | gzip -n` and `... | zstd` (gzip 1.12, zstd 1.5.4).
TEST(ByteStream, UnpacksFilesOfTheCommandLineTools) {
  const TempFolder folder;
  const unsigned char gz[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0xcb,
                              0x48, 0xcd, 0xc9, 0xc9, 0xe7, 0x2a, 0xcf, 0x2f, 0xca, 0x49, 0xe1,
                              0x02, 0x00, 0xff, 0x5d, 0xc5, 0xc4, 0x0c, 0x00, 0x00, 0x00};
  const unsigned char zst[] = {0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x61, 0x00, 0x00, 0x68, 0x65, 0x6c, 0x6c,
                               0x6f, 0x0a, 0x77, 0x6f, 0x72, 0x6c, 0x64, 0x0a, 0xb5, 0x0e, 0x87, 0x17};
  EXPECT_EQ(unpacked(folder.write("t.gz", {std::begin(gz), std::end(gz)})), "hello\nworld\n");
  EXPECT_EQ(unpacked(folder.write("t.zst", {std::begin(zst), std::end(zst)})), "hello\nworld\n");
}

TEST(ByteStream, JoinsMembersAndFrames) {
  const TempFolder folder;
  const std::string text = long_text();
  EXPECT_EQ(unpacked(folder.write("t.gz", gzip("ab") + gzip("") + gzip(text) + gzip("c"))), "ab" + text + "c");
  EXPECT_EQ(unpacked(folder.write("t.zst", zstd("ab") + zstd("") + zstd(text) + zstd("c"))), "ab" + text + "c");
  const std::string skippable("\x50\x2a\x4d\x18\x03\0\0\0xyz", 11);
  EXPECT_EQ(unpacked(folder.write("s.zst", skippable + zstd("ab") + skippable)), "ab");
  EXPECT_EQ(unpacked(folder.write("padded.gz", gzip("ab") + std::string(1000, '\0'))), "ab");
}

TEST(ByteStream, RewindsFromEveryPlace) {
  const TempFolder folder;
  const std::string text = long_text();
  for (const auto& path :
       {folder.write("t.gz", gzip(text)), folder.write("t.zst", zstd(text)), folder.write("t", text)}) {
    const std::unique_ptr<ByteStream> stream = open_byte_stream(path);
    for (const int pieces : {0, 1, 2, 9}) {
      for (int i = 0; i < pieces; ++i) stream->next();
      stream->rewind();
      std::string again;
      for (std::string_view piece = stream->next(); !piece.empty(); piece = stream->next()) again += piece;
      EXPECT_TRUE(again == text) << path << " after " << pieces;
      stream->rewind();
    }
  }
}

TEST(ByteStream, RefusesEveryTruncation) {
  const TempFolder folder;
  const std::string text = long_text().substr(0, 2000);
  for (const auto& [name, whole] : {std::pair{"cut.gz", gzip(text)}, {"cut.zst", zstd(text)}}) {
    EXPECT_NE(fault(folder.write(name, "")).find("is empty; need "), std::string::npos) << name;
    for (size_t size = 1; size < whole.size(); ++size) {
      const std::string line = fault(folder.write(name, whole.substr(0, size)));
      EXPECT_NE(line.find("data go on past byte " + std::to_string(size)), std::string::npos) << name << line;
    }
  }
}

TEST(ByteStream, RefusesEveryFlippedBitOrGivesTheSameText) {
  const TempFolder folder;
  const std::string text = long_text().substr(0, 400);
  for (const auto& [name, whole] : {std::pair{"flip.gz", gzip(text)}, {"flip.zst", zstd(text)}}) {
    int num_refused = 0;
    for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
      std::string flipped = whole;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
      const std::filesystem::path path = folder.write(name, flipped);
      std::string got;
      const std::string line = error_line<DataError>([&] { got = unpacked(path); });
      // Header fields such as the time of writing carry no data.
      EXPECT_TRUE(!line.empty() || got == text) << name << " bit " << bit;
      num_refused += !line.empty();
    }
    EXPECT_GT(num_refused, static_cast<int>(7 * whole.size())) << name;
  }
}

TEST(ByteStream, NamesThePlaceOfCorruptData) {
  const TempFolder folder;
  EXPECT_NE(fault(folder.write("t.gz", "<html>404</html>")).find("t.gz: holds corrupt gzip data near byte "),
            std::string::npos);
  EXPECT_NE(fault(folder.write("t.zst", "<html>404</html>")).find("t.zst: holds corrupt zstd data near byte 0 ("),
            std::string::npos);
  EXPECT_NE(fault(folder.write("t.gz", gzip("ab") + "rest")).find("(incorrect header check)"), std::string::npos);
  std::string wrong_sum = gzip("abc");
  wrong_sum[wrong_sum.size() - 8] ^= 1;
  EXPECT_NE(fault(folder.write("t.gz", wrong_sum)).find("(incorrect data check)"), std::string::npos);
  EXPECT_NE(fault(folder / "none.gz").find("none.gz"), std::string::npos);
}

TEST(ByteStream, KnowsCompressedNames) {
  EXPECT_TRUE(is_compressed_name("a/b.json.gz"));
  EXPECT_TRUE(is_compressed_name("b.zst"));
  EXPECT_FALSE(is_compressed_name("b.gz.json"));
  EXPECT_EQ(uncompressed_name("a/b.json.gz"), "a/b.json");
  EXPECT_EQ(uncompressed_name("a/b.json"), "a/b.json");
}

}  // namespace
}  // namespace ballast
