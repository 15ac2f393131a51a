// SPDX-License-Identifier: Apache-2.0
#include "files/atomic_file.h"

#include <gtest/gtest.h>

#include "files/temp_folder.h"

namespace ballast {
namespace {

TEST(AtomicFile, AppearsAtCommit) {
  const TempFolder folder;
  AtomicFile file(folder / "out", ErrorKind::kData);
  file.append("ab");
  file.append("cd");
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  file.commit();
  EXPECT_EQ(read_file(folder / "out"), "abcd");
  EXPECT_EQ(folder.num_entries(), 1u);
}

TEST(AtomicFile, NamesATargetThatIsAFolder) {
  const TempFolder folder;
  folder.write("out/x", "");
  AtomicFile file(folder / "out", ErrorKind::kData);
  EXPECT_NE(error_line<DataError>([&] { file.commit(); }).find("out: cannot take its name"), std::string::npos);
}

}  // namespace
}  // namespace ballast
