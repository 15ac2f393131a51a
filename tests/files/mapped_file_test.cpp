// SPDX-License-Identifier: Apache-2.0
#include "files/mapped_file.h"

#include <gtest/gtest.h>

#include "files/temp_folder.h"

namespace ballast {
namespace {

TEST(MappedFile, HoldsTheContentOfFilesAndRefusesFolders) {
  const TempFolder folder;
  EXPECT_EQ(MappedFile(folder.write("a", "content"), ErrorKind::kData).text(), "content");
  EXPECT_EQ(MappedFile(folder.write("b", ""), ErrorKind::kData).text(), "");
  EXPECT_THROW(MappedFile(folder.path(), ErrorKind::kData), DataError);
  EXPECT_THROW(MappedFile(folder / "none", ErrorKind::kData), DataError);
}

}  // namespace
}  // namespace ballast
