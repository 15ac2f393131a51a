// SPDX-License-Identifier: Apache-2.0
#include "data/token_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "errors/errors.h"
#include "files/temp_folder.h"

namespace ballast {
namespace {

TEST(TokenFile, HoldsLittleEndianNumbersWithoutAHeader) {
  const TempFolder folder;
  const auto path = folder.path() / "a.npy";
  {
    TokenFileWriter file(path, TokenType::kUint16);
    file.append(std::vector<int32_t>{1, 65535});
    file.append(std::vector<int32_t>{258});
    EXPECT_EQ(file.num_tokens(), 3);
    EXPECT_FALSE(std::filesystem::exists(path));
    file.commit();
  }
  EXPECT_EQ(read_file(path.string()), std::string("\x01\x00\xFF\xFF\x02\x01", 6));
  TokenFileWriter wide(path, TokenType::kUint32);
  wide.append(std::vector<int32_t>{0x01020304});
  wide.commit();
  EXPECT_EQ(read_file(path.string()), "\x04\x03\x02\x01");
}

TEST(TokenFile, ChoosesTheNarrowerTypeThatHoldsEveryId) {
  EXPECT_EQ(token_type_for(65536), TokenType::kUint16);
  EXPECT_EQ(token_type_for(65537), TokenType::kUint32);
  EXPECT_EQ(token_type_name(TokenType::kUint16), "uint16");
}

TEST(TokenFile, NeedsAFolder) {
  const TempFolder folder;
  const std::string path = (folder.path() / "none/a.npy").string();
  EXPECT_EQ(error_line<DataError>([&] { TokenFileWriter(path, TokenType::kUint16); }),
            "data: " + path + ": cannot be written (No such file or directory)");
}

// The digest is Python's: hashlib.sha256(b"1\0" b"8\0" b"uint32\0" b"dolma2\0" b"a.npy\0" b"70\0" b"b.npy\0" b"53\0").
TEST(TokenIndex, CountsWholeInstancesOfEachFile) {
  const TokenIndex index{8, TokenType::kUint32, "dolma2", {{"a.npy", "one", 70}, {"b.npy", "two", 53}}};
  const nlohmann::json expected = nlohmann::json::parse(R"({
    "format_version": "1", "sequence_length": 8, "dtype": "uint32", "tokenizer": "dolma2",
    "total_instances": 14, "total_tokens": 123,
    "fingerprint": "sha256:4cad9b74ba6e0cc6b4b807ec0af28e7be6246264ce66160a6a5bb51794bdbcfb",
    "files": [
      {"path": "a.npy", "label": "one", "n_tokens": 70, "n_instances": 8, "instance_offset": 0},
      {"path": "b.npy", "label": "two", "n_tokens": 53, "n_instances": 6, "instance_offset": 8}]})");
  EXPECT_EQ(nlohmann::json(token_index_json(index)), expected);
}

}  // namespace
}  // namespace ballast
